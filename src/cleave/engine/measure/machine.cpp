#include "cleave/engine/measure/machine.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cleave/base/check.h"
#include "cleave/comm/mpi/session.h"
#include "cleave/comm/pinning.h"
#include "cleave/engine/measure/matmul_rate.h"
#include "cleave/ops/elementwise.h"
#include "cleave/tensor/arena.h"

namespace cleave::engine {
namespace {

namespace fs = std::filesystem;

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::optional<std::int64_t> number(std::string_view text) {
  std::int64_t value = 0;
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;  // "max", or no such file
  return value;
}

/// The value of the first line "key : value" or "key: value".
std::string value_in(const fs::path& path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    const std::size_t colon = line.find(':');
    if (colon == line.npos) continue;
    const std::size_t begin = line.find_first_not_of(" \t", colon + 1);
    if (begin != line.npos) return line.substr(begin);
  }
  return {};
}

std::int64_t kibibytes_in_meminfo(std::string_view key) {
  return number(value_in("/proc/meminfo", key)).value_or(0) * 1024;
}

/// Where the limits of `controller` may be: version 2 of cgroups, then version 1, each for this
/// process's own group and for the root, which is what a container sees.
std::vector<fs::path> cgroups(const std::string& controller) {
  std::vector<fs::path> paths;
  std::ifstream file("/proc/self/cgroup");
  const fs::path root = "/sys/fs/cgroup";
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string names = "," + line.substr(first + 1, second - first - 1) + ",";
    const fs::path own = fs::path(line.substr(second + 1)).relative_path();
    if (names == ",,") paths.push_back(root / own);
    if (names.find("," + controller + ",") != names.npos) paths.push_back(root / controller / own);
  }
  paths.push_back(root);
  paths.push_back(root / controller);
  return paths;
}

std::optional<std::int64_t> container_memory_left(std::int64_t machine_memory) {
  constexpr std::pair<const char*, const char*> kNames[] = {
      {"memory.max", "memory.current"}, {"memory.limit_in_bytes", "memory.usage_in_bytes"}};
  for (const fs::path& path : cgroups("memory")) {
    for (const auto& [limit_name, used_name] : kNames) {
      const auto limit = number(first_line(path / limit_name));
      // "No limit" is a number near 2^63 in version 1.
      if (!limit || *limit >= machine_memory) continue;
      return std::max<std::int64_t>(0, *limit - number(first_line(path / used_name)).value_or(0));
    }
  }
  return std::nullopt;
}

std::optional<double> processor_quota() {
  for (const fs::path& path : cgroups("cpu")) {
    const std::string both = first_line(path / "cpu.max");  // "max 100000" or "200000 100000"
    const std::size_t blank = both.find(' ');
    const auto quota = blank == both.npos ? number(first_line(path / "cpu.cfs_quota_us"))
                                          : number(both.substr(0, blank));
    const auto period = blank == both.npos ? number(first_line(path / "cpu.cfs_period_us"))
                                           : number(both.substr(blank + 1));
    if (quota && period && *quota > 0 && *period > 0) {
      return static_cast<double>(*quota) / static_cast<double>(*period);
    }
  }
  return std::nullopt;
}

/// The choice in brackets: "always [madvise] never".
std::string huge_pages() {
  const std::string line = first_line("/sys/kernel/mm/transparent_hugepage/enabled");
  const std::size_t open = line.find('[');
  const std::size_t close = line.find(']');
  return close == line.npos ? "" : line.substr(open + 1, close - open - 1);
}

/// Where hwloc keeps the plugin with which it asks OpenCL for devices; empty if it has none.
std::string opencl_plugin() {
  constexpr const char* kPlugin = "hwloc/hwloc_opencl.so";
  std::error_code error;
  for (const fs::path root : {"/usr/lib", "/usr/lib64", "/usr/local/lib"}) {
    if (fs::exists(root / kPlugin, error)) return (root / kPlugin).string();
    for (const fs::directory_entry& entry : fs::directory_iterator(root, error)) {
      const fs::path path = entry.path() / kPlugin;
      if (fs::exists(path, error)) return path.string();
    }
  }
  return {};
}

void look_at_mpi(Machine& machine) {
  machine.opencl_plugin = opencl_plugin();
  machine.mpi = comm::mpi_version();
  try {
    machine.under_mpi = comm::launched_by_mpi();
  } catch (const UserError& error) {
    machine.mpi_problem = error.what();
  }
}

double bandwidth(int threads) {
  constexpr std::int64_t kBytes = std::int64_t{64} << 20;  // far more than the caches hold
  Arena arena(3 * kBytes);
  ops::Compute compute(threads);
  const auto vector = [&](int index) {
    return View(arena.at(index * kBytes), DType::F32, {kBytes / size_of(DType::F32)});
  };
  double best = 0;
  for (int round = 0; round < 4; ++round) {  // the first one also gets its pages
    const auto start = std::chrono::steady_clock::now();
    ops::add(compute, vector(0), vector(1), vector(2));
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    best = std::max(best, 3.0 * kBytes / seconds.count());
  }
  return best;
}

}  // namespace

int allowed_threads() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (sched_getaffinity(0, sizeof(mask), &mask) != 0) {
    return static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  }
  return std::max(1, CPU_COUNT(&mask));
}

Machine look_at_machine() {
  Machine machine;
  machine.processor = value_in("/proc/cpuinfo", "model name");
  machine.instructions = ops::instruction_set();
  machine.online = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  machine.allowed = allowed_threads();
  machine.allowed_cores = static_cast<int>(comm::allowed_cores().size());
  machine.processor_quota = processor_quota();
  getloadavg(&machine.load, 1);

  machine.memory = kibibytes_in_meminfo("MemTotal");
  machine.memory_available = kibibytes_in_meminfo("MemAvailable");
  machine.container_memory = container_memory_left(machine.memory);
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    machine.address_space = static_cast<std::int64_t>(limit.rlim_cur);
  }
  machine.huge_pages = huge_pages();

  look_at_mpi(machine);
  for (const char* name :
       {"OMP_NUM_THREADS", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "OMP_PROC_BIND", "OMP_PLACES",
        "GOMP_CPU_AFFINITY", "OMP_THREAD_LIMIT", "OMP_DYNAMIC", "ONEDNN_MAX_CPU_ISA",
        "DNNL_MAX_CPU_ISA", "ONEDNN_VERBOSE", "DNNL_VERBOSE", "HWLOC_COMPONENTS"}) {
    if (const char* value = std::getenv(name)) machine.environment.emplace_back(name, value);
  }
  std::error_code ignored;
  machine.disk_free = static_cast<std::int64_t>(fs::space(".", ignored).available);
  return machine;
}

MachineRates measure_machine(int threads) {
  return {.f32_one = matmul_rate(DType::F32, 1),
          .f32_all = matmul_rate(DType::F32, threads),
          .bf16_one = matmul_rate(DType::BF16, 1),
          .bf16_all = matmul_rate(DType::BF16, threads),
          .bandwidth = bandwidth(threads)};
}

}  // namespace cleave::engine
