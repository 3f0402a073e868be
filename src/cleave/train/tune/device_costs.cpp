#include "cleave/train/tune/device_costs.h"

#include <algorithm>

#include "cleave/engine/measure/devices_at_once.h"

namespace cleave::train {

const SegmentProfile& DeviceCosts::profile_of(const Config& config, schedule::Recompute kind) {
  // Emulated devices may take the same whatever the microbatch, but not whatever the pipeline.
  const bool by_device = config.devices.emulate && !config.devices.emulate->per_layer;
  const std::pair key = {by_device ? *config.parallel.pipeline : *config.train.microbatch, kind};
  const auto found = profiles_.find(key);
  if (found != profiles_.end()) return found->second;
  return profiles_.emplace(key, profile_segments(config, kind, launcher_)).first->second;
}

const KindFacts& DeviceCosts::kinds_of(const Config& config) {
  if (!kinds_) kinds_ = kind_facts(config, launcher_);
  return *kinds_;
}

double DeviceCosts::at_once(const Config& config) {
  if (config.devices.emulate) return 0;
  if (facts_.at_once > 0)
    return std::min(facts_.at_once, static_cast<double>(config.devices.count));
  if (at_once_ >= 0) return at_once_;
  return at_once_ =
             engine::devices_at_once(launcher_.processes(), static_cast<int>(config.devices.count),
                                     static_cast<int>(config.devices.threads));
}

}  // namespace cleave::train
