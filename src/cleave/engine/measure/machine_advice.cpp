#include <algorithm>
#include <cctype>
#include <cmath>

#include "cleave/base/check.h"
#include "cleave/base/units.h"
#include "cleave/engine/measure/machine.h"

namespace cleave::engine {
namespace {

using detail::concat;

// Per parameter: value and master weight, gradient, two moments (plan/state_layout.h); a checkpoint
// has master weight and moments in f32.
constexpr double kTrainingBytesF32 = 4 + 4 + 8;
constexpr double kTrainingBytesBf16 = 2 + 4 + 4 + 8;
constexpr double kCheckpointBytes = 4 + 8;

std::string millions(double parameters) {
  return concat(std::llround(parameters / 1e6), " million");
}

void advise_on_processors(const Machine& m, std::vector<std::string>& out) {
  if (m.allowed < m.online) {
    out.push_back(concat(
        "This process may use ", m.allowed, " of ", m.online,
        " hardware threads: taskset, a container or mpirun's binding withholds the others; under "
        "mpirun pass --map-by slot:PE=N or --bind-to none, under srun --cpus-per-task N."));
  }
  if (m.processor_quota && *m.processor_quota < m.allowed) {
    out.push_back(concat("The container grants the time of ", *m.processor_quota,
                         " hardware threads and shows ", m.allowed,
                         ": keep devices x threads below the quota, or threads will be stopped in "
                         "mid-step; raise it with docker run --cpus."));
  }
  if (m.allowed_cores > 0 && m.allowed > m.allowed_cores) {
    out.push_back(concat("The ", m.allowed, " hardware threads share ", m.allowed_cores,
                         " cores: products gain little from more than ", m.allowed_cores,
                         " threads in all; start with devices x threads = ", m.allowed_cores, "."));
  }
  if (m.load > m.allowed + 0.5) {
    out.push_back(concat("Others are at work here: ", std::llround(m.load),
                         " processes wanted to run over the last minute, on ", m.allowed,
                         " hardware threads; the rates above suffer, and so will a run."));
  }
}

void advise_on_rates(const Machine& m, const MachineRates& r, std::vector<std::string>& out) {
  const double best = std::max({r.f32_one, r.f32_all, r.bf16_one, r.bf16_all});
  // Six FLOPs per parameter and token: two in F, four in I and W.
  out.push_back(concat("Products run at ", std::llround(best / 1e9),
                       " GFLOP/s at best: a model of 124 million parameters (gpt2-124m) cannot "
                       "pass ",
                       std::llround(best / (6 * 124e6)), " tokens/s on this machine alone."));
  if (r.bf16_all < 1.2 * r.f32_all) {
    const char* why = m.instructions.bf16_dot || m.instructions.amx_bf16
                          ? "although the processor has instructions for it"
                          : "because the processor has no instructions for it";
    out.push_back(concat("bf16 products are no faster than f32 here, ", why,
                         "; train.dtype = \"bf16\" still halves activations and messages."));
  }
}

void advise_on_memory(const Machine& m, std::vector<std::string>& out) {
  std::int64_t room = m.memory_available;
  std::string_view what = "free memory";
  if (m.container_memory && *m.container_memory < room) {
    room = *m.container_memory;
    what = "what the container's limit leaves (docker run --memory raises it)";
  }
  if (m.address_space && *m.address_space < room) {
    room = *m.address_space;
    what = "the limit on address space (ulimit -v unlimited lifts it)";
  }
  out.push_back(
      concat("Memory ends at ", format_bytes(room), ", ", what, ": weights, gradients and ",
             "moments of ", millions(static_cast<double>(room) / kTrainingBytesF32),
             " parameters in f32, ", millions(static_cast<double>(room) / kTrainingBytesBf16),
             " in bf16, activations not counted; a run's first lines say "
             "what a model needs."));
  if (m.huge_pages == "never") {
    out.push_back(
        "Huge pages are switched off, which costs products a few per cent; write madvise to "
        "/sys/kernel/mm/transparent_hugepage/enabled.");
  }
  out.push_back(concat(format_bytes(m.disk_free), " are free in this directory: a checkpoint of ",
                       millions(static_cast<double>(m.disk_free) / (3 * kCheckpointBytes)),
                       " parameters fits three times, which train.keep = 2 needs while it saves."));
}

/// cleave keeps hwloc from OpenCL in its own ranks, unless the variable says otherwise; mpirun it
/// cannot reach.
void advise_on_opencl(const Machine& m, std::vector<std::string>& out) {
  const auto set = std::ranges::find(m.environment, "HWLOC_COMPONENTS",
                                     &std::pair<std::string, std::string>::first);
  if (m.opencl_plugin.empty()) return;
  if (set == m.environment.end()) {
    out.push_back(concat("mpirun lets hwloc load OpenCL drivers (", m.opencl_plugin,
                         "), and those built on LLVM take SIGUSR1 from it, so that it passes none "
                         "on to a run; export HWLOC_COMPONENTS=-opencl before you start it."));
    return;
  }
  if (set->second.find("-opencl") != std::string::npos) return;
  out.push_back(concat("HWLOC_COMPONENTS=", set->second, " lets hwloc load OpenCL drivers under ",
                       "mpirun (", m.opencl_plugin,
                       "), and those built on LLVM take SIGUSR1 from a run; add -opencl to it, or "
                       "unset it."));
}

/// Whether a variable of OpenMP that is true, false or more switches something on.
bool switches_on(std::string value) {
  std::ranges::transform(value, value.begin(), [](unsigned char c) { return std::tolower(c); });
  return !value.empty() && value != "false" && value != "0";
}

void advise_on_environment(const Machine& m, std::vector<std::string>& out) {
  for (const auto& [name, value] : m.environment) {
    const auto say = [&](const auto&... parts) {
      out.push_back(concat(name, "=", value, " ", parts...));
    };
    if (name == "OMP_NUM_THREADS") {
      say("has no effect: devices.threads decides.");
    } else if (name == "OMP_WAIT_POLICY" && (value == "active" || value == "ACTIVE")) {
      say("lets idle threads burn the cores that other devices need; unset it.");
    } else if (name == "GOMP_SPINCOUNT") {
      say("decides how long idle threads spin; unset it where devices share cores.");
    } else if ((name == "OMP_PROC_BIND" && switches_on(value)) || name == "OMP_PLACES" ||
               name == "GOMP_CPU_AFFINITY") {
      say("binds the threads of every device to the same cores; unset it, cleave binds its devices "
          "itself.");
    } else if (name == "OMP_THREAD_LIMIT") {
      say("can give a device fewer threads than planned; unset it.");
    } else if (name == "OMP_DYNAMIC" && switches_on(value)) {
      say("lets OpenMP choose fewer threads than devices.threads; unset it.");
    } else if (name.ends_with("_MAX_CPU_ISA")) {
      say("keeps oneDNN from the processor's best instructions; unset it.");
    } else if (name.ends_with("_VERBOSE") && value != "0" && value != "none" && value != "error") {
      say("makes oneDNN print every product; unset it for speed.");
    }
  }
  advise_on_opencl(m, out);
  if (!m.mpi_problem.empty()) out.push_back(m.mpi_problem + ".");
}

}  // namespace

std::vector<std::string> advice(const Machine& machine, const MachineRates& rates) {
  std::vector<std::string> out;
  advise_on_rates(machine, rates, out);
  advise_on_processors(machine, out);
  advise_on_memory(machine, out);
  advise_on_environment(machine, out);
  return out;
}

std::string thread_warning(std::int64_t threads, int allowed) {
  if (threads <= allowed) return {};
  return concat(threads, " threads per device, and this process may use ", allowed,
                " hardware thread", allowed == 1 ? "" : "s",
                ": they will take turns; lower devices.threads to ", allowed,
                ", or widen the affinity mask (taskset, the container's cpuset, mpirun --map-by "
                "slot:PE=",
                threads, ")");
}

}  // namespace cleave::engine
