#include "cleave/engine/measure/machine.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "cleave/comm/mpi/session.h"
#include "cleave/ops/onednn/amx_matmul.h"

namespace cleave::engine {
namespace {

constexpr MachineRates kRates{
    .f32_one = 50e9, .f32_all = 100e9, .bf16_one = 100e9, .bf16_all = 200e9, .bandwidth = 20e9};

/// A machine with nothing to complain about.
Machine good() {
  return {.online = 8,
          .allowed = 8,
          .allowed_cores = 8,
          .memory = std::int64_t{32} << 30,
          .memory_available = std::int64_t{16} << 30,
          .huge_pages = "madvise",
          .disk_free = std::int64_t{36} << 30};
}

/// Whether some sentence of the advice has `part` in it.
bool says(const Machine& machine, std::string_view part, const MachineRates& rates = kRates) {
  return std::ranges::any_of(advice(machine, rates), [&](const std::string& sentence) {
    return sentence.find(part) != sentence.npos;
  });
}

TEST(MachineAdvice, SaysWhatAGoodMachineCanDoAndNoMore) {
  EXPECT_EQ(advice(good(), kRates).size(), 3u);
  EXPECT_TRUE(says(good(), "Products run at 200 GFLOP/s"));
  EXPECT_TRUE(says(good(), "cannot pass 269 tokens/s"));  // 200e9 / (6 · 124e6)
  EXPECT_TRUE(says(good(), "1074 million parameters in f32, 954 million in bf16"));  // 16, 18 bytes
  EXPECT_TRUE(says(good(), "a checkpoint of 1074 million parameters"));  // 3 · 12 bytes
}

TEST(MachineAdvice, IsSilentOnSettingsThatSwitchSomethingOff) {
  Machine m = good();
  m.environment = {{"OMP_PROC_BIND", "false"},
                   {"OMP_DYNAMIC", "False"},
                   {"OMP_WAIT_POLICY", "passive"},
                   {"ONEDNN_VERBOSE", "0"},
                   {"DNNL_VERBOSE", "none"}};
  EXPECT_EQ(advice(m, kRates), advice(good(), kRates));
}

TEST(MachineAdvice, NamesEveryLimitAndItsRemedy) {
  Machine m = good();
  m.allowed = 2;
  EXPECT_TRUE(says(m, "may use 2 of 8 hardware threads"));
  m = good();
  m.allowed_cores = 4;
  EXPECT_TRUE(says(m, "start with devices x threads = 4."));
  m = good();
  m.processor_quota = 1.5;
  EXPECT_TRUE(says(m, "docker run --cpus"));
  m = good();
  m.load = 20;
  EXPECT_TRUE(says(m, "20 processes wanted to run"));
  m = good();
  m.container_memory = std::int64_t{1} << 30;
  EXPECT_TRUE(says(m, "Memory ends at 1.00 GiB, what the container's limit leaves"));
  m.address_space = std::int64_t{1} << 29;
  EXPECT_TRUE(says(m, "ulimit -v unlimited"));
  m = good();
  m.huge_pages = "never";
  EXPECT_TRUE(says(m, "transparent_hugepage"));
  m = good();
  m.environment = {{"OMP_WAIT_POLICY", "active"}, {"OMP_NUM_THREADS", "4"}};
  EXPECT_TRUE(says(m, "OMP_WAIT_POLICY=active lets idle threads burn"));
  EXPECT_TRUE(says(m, "OMP_NUM_THREADS=4 has no effect"));
  m.environment = {{"OMP_PROC_BIND", "close"}, {"ONEDNN_VERBOSE", "1"}, {"OMP_DYNAMIC", "true"}};
  EXPECT_TRUE(says(m, "OMP_PROC_BIND=close binds the threads of every device to the same cores"));
  EXPECT_TRUE(says(m, "ONEDNN_VERBOSE=1 makes oneDNN print every product"));
  EXPECT_TRUE(says(m, "OMP_DYNAMIC=true lets OpenMP choose fewer threads"));
  m = good();
  m.opencl_plugin = "/usr/lib/hwloc/hwloc_opencl.so";
  m.environment = {};
  EXPECT_TRUE(says(m, "export HWLOC_COMPONENTS=-opencl before you start it"));
  m.environment = {{"HWLOC_COMPONENTS", "linux"}};
  EXPECT_TRUE(says(m, "HWLOC_COMPONENTS=linux lets hwloc load OpenCL drivers"));
  m.environment = {{"HWLOC_COMPONENTS", "-opencl"}};
  EXPECT_FALSE(says(m, "OpenCL"));
  MachineRates slow = kRates;
  slow.bf16_all = slow.f32_all;
  EXPECT_TRUE(says(good(), "bf16 products are no faster than f32 here", slow));
}

TEST(ThreadWarning, ComesOnlyWithMoreThreadsThanTheMaskAllows) {
  EXPECT_EQ(thread_warning(2, 2), "");
  EXPECT_EQ(thread_warning(4, 1),
            "4 threads per device, and this process may use 1 hardware thread: they will take "
            "turns; lower devices.threads to 1, or widen the affinity mask (taskset, the "
            "container's cpuset, mpirun --map-by slot:PE=4)");
}

TEST(Machine, KnowsItself) {
  const Machine machine = look_at_machine();
  EXPECT_GE(machine.allowed, 1);
  EXPECT_LE(machine.allowed, machine.online);
  EXPECT_GT(machine.memory, machine.memory_available / 2);
  EXPECT_FALSE(machine.instructions.simd.empty());
  EXPECT_EQ(machine.instructions.onednn, ops::onednn::instructions());
  EXPECT_EQ(machine.mpi, comm::mpi_version());
}

}  // namespace
}  // namespace cleave::engine
