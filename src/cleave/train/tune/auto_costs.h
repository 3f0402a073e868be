#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "cleave/comm/launcher.h"
#include "cleave/engine/compile/compile.h"
#include "cleave/plan/tune/partition_search.h"
#include "cleave/train/config/config.h"
#include "cleave/train/tune/device_facts.h"
#include "cleave/train/tune/segment_profile.h"

namespace cleave::train {

/// What layouts of this machine take, from the profile of their segments. In every config asked
/// about, nothing but the partition is "auto".
class AutoCosts {
 public:
  /// All processes ask the same and get the same.
  AutoCosts(comm::Launcher& launcher, DeviceFacts facts)
      : launcher_(launcher), facts_(std::move(facts)) {}

  /// The segments and devices of one pipeline. Bytes are near enough to cut by; compiling has the
  /// last word on them.
  plan::PartitionProblem problem(const Config& config);

  /// Seconds after the last backward: NORM, STEP, and what replicas exchange.
  double after_pipeline(const Config& config);

  /// False if what one block keeps of one microbatch is more than any device has: no cut, no ZeRO
  /// and no recompute helps then, and measuring it might not fit either.
  static bool holds_a_block(const Config& config);

  /// Seconds that no cut and no schedule of this layout can go below.
  double bound(const Config& config);

  /// The costs of everything in the program of `step`, which is `config` compiled.
  plan::Costs costs(const Config& config, const engine::CompiledStep& step);

  /// Devices that can compute at the same time; 0: all.
  double at_once(const Config& config);

  /// How many times as long compute takes while all devices compute.
  double crowd(const Config& config);

  /// Seconds that a device adds up activations with its tensor group in a step.
  double tensor_sums(const Config& config);

 private:
  const SegmentProfile& profile_of(const Config& config);
  double recompute_of(const Config& config, std::size_t part);
  enum class Group : std::uint8_t { Tensor, Replicas };
  double exchange(const Config& config, Group group, double bytes);  ///< seconds, in a collective
  plan::LinkCosts sum_within(const Config& config, Group group);
  plan::LinkCosts link_between(const Config& config, std::span<const int> from,
                               std::span<const int> to);
  double speed_at(const Config& config, int place) const;
  /// The time of what plan::parts_of numbers.
  plan::StageCosts time_of(const Config& config, std::size_t part);

  comm::Launcher& launcher_;
  DeviceFacts facts_;
  std::map<std::int64_t, SegmentProfile> profiles_;
  std::map<std::pair<std::int64_t, schedule::Recompute>, std::vector<double>> recompute_;
  double at_once_ = -1;
};

}  // namespace cleave::train
