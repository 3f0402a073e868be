#include "cleave/train/tune/kind_facts.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string>

#include "cleave/ops/accelerator.h"
#include "cleave/train/tune/segment_profile.h"

namespace cleave::train {
namespace {

/// Seconds that a microbatch takes through all segments.
double seconds_of(const SegmentProfile& profile) {
  double sum = 0;
  for (const plan::StageCosts& part : profile.parts) sum += part.passes();
  return sum;
}

const std::string& kind_of(const Config& config, std::size_t device) {
  const std::vector<std::string>& kinds = config.devices.kind;
  return kinds.size() == 1 ? kinds[0] : kinds.at(device);
}

/// Devices that share an accelerator share its memory; each has one block of it.
std::vector<std::int64_t> memory_of_kinds(const Config& config) {
  const ops::Accelerators found = ops::find_accelerators();
  std::vector<const ops::AcceleratorInfo*> infos;
  std::map<const ops::AcceleratorInfo*, std::int64_t> sharers;
  for (int d = 0; d < config.devices.count; ++d) {
    infos.push_back(ops::choose_accelerator(found, kind_of(config, d), d));
    ++sharers[infos.back()];
  }
  std::vector<std::int64_t> memory;
  for (const ops::AcceleratorInfo* info : infos)
    memory.push_back(info == nullptr
                         ? std::numeric_limits<std::int64_t>::max()
                         : std::min(info->largest_block, info->memory / sharers.at(info)));
  return memory;
}

}  // namespace

KindFacts kind_facts(const Config& config, comm::Launcher& launcher) {
  if (!config.devices.accelerated() || config.devices.emulate || launcher.devices()) return {};
  KindFacts facts{.memory = memory_of_kinds(config)};
  std::map<std::string, double> seconds;
  for (const std::string& kind : config.devices.kind)
    if (!seconds.contains(kind))
      seconds[kind] =
          seconds_of(profile_segments(config, schedule::Recompute::None, launcher, kind));
  if (seconds.size() == 1) return facts;
  const double standing = seconds.at(standing_kind(config, launcher));
  for (int d = 0; d < config.devices.count; ++d)
    facts.speed.push_back(standing / seconds.at(kind_of(config, d)));
  return facts;
}

}  // namespace cleave::train
