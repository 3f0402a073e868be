#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "cleave/comm/launcher.h"
#include "cleave/train/config/config.h"
#include "cleave/train/tune/device_facts.h"
#include "cleave/train/tune/kind_facts.h"
#include "cleave/train/tune/segment_profile.h"

namespace cleave::train {

/// What is known of the devices of a run, for all its layouts. All processes ask the same and get
/// the same.
class DeviceCosts {
 public:
  DeviceCosts(comm::Launcher& launcher, DeviceFacts facts)
      : facts_(std::move(facts)), launcher_(launcher) {}

  const DeviceFacts& facts() const { return facts_; }

  /// Measured once for each microbatch and kind of recompute.
  const SegmentProfile& profile_of(const Config& config,
                                   schedule::Recompute kind = schedule::Recompute::None);

  /// Measured once, for the microbatch that is asked about first: a ratio hardly depends on it.
  const KindFacts& kinds_of(const Config& config);

  /// Devices that can compute at the same time; 0: all.
  double at_once(const Config& config);

  /// Whether messages between devices leave a process, or are emulated to.
  bool are_apart(const Config& config) const {
    return facts_.knows_links() || config.devices.emulate || launcher_.devices();
  }

 private:
  DeviceFacts facts_;
  comm::Launcher& launcher_;
  std::map<std::pair<std::int64_t, schedule::Recompute>, SegmentProfile> profiles_;
  std::optional<KindFacts> kinds_;
  double at_once_ = -1;
};

}  // namespace cleave::train
