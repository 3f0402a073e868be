#include "cleave/comm/pinning.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include <hwloc.h>
#include <sched.h>

#include "cleave/base/check.h"

namespace cleave::comm {
namespace {

// Deals `places` out in order, `threads` of them to each device.
std::vector<HardwareThreads> deal(std::span<const HardwareThreads> places, int devices,
                                  int threads) {
  std::vector<HardwareThreads> dealt(static_cast<std::size_t>(devices));
  for (int i = 0; i < devices * threads; ++i) {
    const HardwareThreads& place = places[static_cast<std::size_t>(i)];
    HardwareThreads& device = dealt[static_cast<std::size_t>(i / threads)];
    device.insert(device.end(), place.begin(), place.end());
  }
  return dealt;
}

std::string counted(std::size_t count, const char* thing) {
  return detail::concat(count, " ", thing, count == 1 ? "" : "s");
}

}  // namespace

Pinning plan_pinning(std::span<const HardwareThreads> cores, int devices, int threads_per_device) {
  std::vector<HardwareThreads> single;
  for (const HardwareThreads& core : cores) {
    for (const int thread : core) single.push_back({thread});
  }
  const auto needed =
      static_cast<std::size_t>(devices) * static_cast<std::size_t>(threads_per_device);
  const std::string who = counted(static_cast<std::size_t>(devices), "device") + " of " +
                          counted(static_cast<std::size_t>(threads_per_device), "thread");
  if (needed <= cores.size()) {
    return {.devices = deal(cores, devices, threads_per_device),
            .report = who + ": pinned, a core for each thread"};
  }
  if (needed <= single.size()) {
    return {.devices = deal(single, devices, threads_per_device),
            .report = who + ": pinned, a hardware thread for each thread"};
  }
  // A device's further threads do not move with it, so places for several threads are not pinned.
  const std::size_t places = std::max<std::size_t>(1, single.size() / threads_per_device);
  return {.devices = std::vector<HardwareThreads>(static_cast<std::size_t>(devices)),
          .shared = threads_per_device == 1 ? single : std::vector<HardwareThreads>(places),
          .report = detail::concat(who, ": they take turns on ", counted(cores.size(), "core"))};
}

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

bool pin_this_thread(const HardwareThreads& threads) {
  return pin_thread(0, threads);
}

bool pin_thread(int number, const HardwareThreads& threads) {
  std::array<cpu_set_t, 8> set{};  // one ends at 1024, and there are larger machines
  for (const int thread : threads) CPU_SET_S(thread, sizeof(set), set.data());
  return sched_setaffinity(number, sizeof(set), set.data()) == 0;
}

}  // namespace cleave::comm
