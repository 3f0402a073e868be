#include <memory>
#include <utility>

#include <hwloc.h>

#include "cleave/base/check.h"
#include "cleave/comm/pinning.h"

namespace cleave::comm {

std::vector<HardwareThreads> allowed_cores() {
  hwloc_topology_t topology = nullptr;
  CLEAVE_CHECK(hwloc_topology_init(&topology) == 0 && hwloc_topology_load(topology) == 0,
               "hwloc cannot read the machine");
  const std::unique_ptr<hwloc_topology, decltype(&hwloc_topology_destroy)> topology_owner(
      topology, hwloc_topology_destroy);
  const std::unique_ptr<hwloc_bitmap_s, decltype(&hwloc_bitmap_free)> allowed(hwloc_bitmap_alloc(),
                                                                              hwloc_bitmap_free);
  if (hwloc_get_cpubind(topology, allowed.get(), HWLOC_CPUBIND_THREAD) != 0) {
    hwloc_bitmap_copy(allowed.get(), hwloc_topology_get_allowed_cpuset(topology));
  }
  std::vector<HardwareThreads> cores;
  hwloc_obj_t core = nullptr;
  while ((core = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_CORE, core)) != nullptr) {
    HardwareThreads threads;
    for (int i = hwloc_bitmap_first(core->cpuset); i >= 0; i = hwloc_bitmap_next(core->cpuset, i)) {
      if (hwloc_bitmap_isset(allowed.get(), static_cast<unsigned>(i)) != 0) threads.push_back(i);
    }
    if (!threads.empty()) cores.push_back(std::move(threads));
  }
  return cores;
}

}  // namespace cleave::comm
