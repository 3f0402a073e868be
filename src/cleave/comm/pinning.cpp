#include "cleave/comm/pinning.h"

#include <algorithm>
#include <array>
#include <utility>

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

bool pin_this_thread(const HardwareThreads& threads) {
  return pin_thread(0, threads);
}

bool pin_thread(int number, const HardwareThreads& threads) {
  std::array<cpu_set_t, 8> set{};  // one ends at 1024, and there are larger machines
  for (const int thread : threads) CPU_SET_S(thread, sizeof(set), set.data());
  return sched_setaffinity(number, sizeof(set), set.data()) == 0;
}

}  // namespace cleave::comm
