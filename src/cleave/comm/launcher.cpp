#include "cleave/comm/launcher.h"

#include "cleave/base/check.h"

namespace cleave::comm {

void LocalLauncher::run(int devices, int threads, const DeviceWork& work, const OnStuck& on_stuck) {
  if (devices == 1) return work(*alone_);
  if (threads == kNoThreads) return run_devices(devices, work, on_stuck);
  run_pinned(devices, threads, work, on_stuck, pin_);
}

void ProcessLauncher::run(int devices, int /*threads*/, const DeviceWork& work,
                          const OnStuck& /*on_stuck*/) {
  require(devices == world_.size(), "the run needs ", devices, " devices, but there are ",
          world_.size(), " processes; start as many");
  work(world_);
}

}  // namespace cleave::comm
