// In place of hwloc where everything is linked in: cores as the kernel lists them.

#include <array>
#include <fstream>
#include <map>
#include <string>

#include <sched.h>

#include "cleave/base/check.h"
#include "cleave/comm/pinning.h"

namespace cleave::comm {
namespace {

/// The hardware threads of the core that has `thread`, as text; that of the thread alone where the
/// kernel does not say.
std::string core_of(int thread) {
  const std::string path =
      detail::concat("/sys/devices/system/cpu/cpu", thread, "/topology/thread_siblings_list");
  std::ifstream file(path);
  std::string siblings;
  if (!std::getline(file, siblings)) siblings = std::to_string(thread);
  return siblings;
}

}  // namespace

std::vector<HardwareThreads> allowed_cores() {
  std::array<cpu_set_t, 8> set{};  // one ends at 1024, and there are larger machines
  CLEAVE_CHECK(sched_getaffinity(0, sizeof(set), set.data()) == 0,
               "the kernel does not say where this thread may run");
  std::vector<HardwareThreads> cores;
  std::map<std::string, std::size_t> known;
  for (int thread = 0; thread < static_cast<int>(sizeof(set)) * 8; ++thread) {
    if (!CPU_ISSET_S(thread, sizeof(set), set.data())) continue;
    const auto [core, is_new] = known.try_emplace(core_of(thread), cores.size());
    if (is_new) cores.emplace_back();
    cores[core->second].push_back(thread);
  }
  return cores;
}

}  // namespace cleave::comm
