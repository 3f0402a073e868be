#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "cleave/comm/communicator.h"
#include "cleave/comm/pinning.h"

namespace cleave::comm {

class LocalShared;

/// Devices that are threads of one process. A message is one copy, from the sender's buffer
/// straight into the receiver's, made by whichever side has nothing better to do.
class LocalWorld {
 public:
  /// Where there are `places`, devices take turns on them (shared_cores.h).
  explicit LocalWorld(int devices, std::vector<HardwareThreads> places = {});
  ~LocalWorld();
  LocalWorld(const LocalWorld&) = delete;
  LocalWorld& operator=(const LocalWorld&) = delete;

  int size() const;

  /// The group of all devices, as device `device` sees it, for its thread; where devices take
  /// turns, once it has its first.
  std::unique_ptr<Communicator> join(int device);

  /// Device `device` will not talk any more. Whoever waits for it from now on gets DeviceLost.
  void leave(int device);

  /// Device `device` cannot go on. Everybody who waits, or will wait, gets DeviceLost with
  /// `reason`. May be called from any thread; the first call counts.
  void abort(int device, std::string_view reason);

 private:
  std::unique_ptr<LocalShared> shared_;
};

/// Hears of a device that does not come back although another one has failed with `error`. May end
/// the process; a thread cannot be ended.
using OnStuck = std::function<void(const std::exception& error)>;

/// Runs `work` on a thread per device and joins them all. When one throws the others are aborted,
/// and the first exception is thrown again here.
void run_devices(LocalWorld& world, const std::function<void(Communicator&)>& work,
                 const OnStuck& on_stuck = {});
void run_devices(int devices, const std::function<void(Communicator&)>& work,
                 const OnStuck& on_stuck = {});

/// Whether devices stay on the cores that they are given.
enum class Pin : std::uint8_t { No, Yes };

/// The same on the cores of this process, as plan_pinning() deals them out, beginning with another
/// one in every process: two runs on one machine would otherwise share the first cores and leave
/// the others idle.
void run_pinned(int devices, int threads, const std::function<void(Communicator&)>& work,
                const OnStuck& on_stuck = {}, Pin pin = Pin::Yes);

}  // namespace cleave::comm
