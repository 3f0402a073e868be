#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "cleave/comm/launcher.h"
#include "cleave/train/config/config.h"
#include "cleave/train/tune/auto_plan.h"

namespace cleave::train {

/// A run whose devices have changed, planned again.
struct Regrouping {
  std::optional<PlannedRun> run;  ///< for its devices.count first devices; nothing if none fits
  std::string lack;               ///< what is missing then: a sentence
};

/// The budget of a device for which neither the config nor who offered it gave one.
inline constexpr std::int64_t kUnlimited = 0;

/// `config` on devices with so many bytes each.
Config on_devices(const Config& config, std::span<const std::int64_t> memory);

/// Everything of `config` that changes no bit, anew for devices with `memory` bytes each: axes,
/// schedule, partition, ZeRO, recompute; and fewer train.copies if there is no room for them. The
/// grid stays. As many of the first devices as a layout can use. Costs are those measured before,
/// where there are any, with `facts` of the devices.
Regrouping regroup(const Config& config, std::span<const std::int64_t> memory,
                   comm::Launcher& launcher, const DeviceFacts& facts = {});

}  // namespace cleave::train
