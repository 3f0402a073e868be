#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "cleave/comm/launcher.h"
#include "cleave/engine/compile/compile.h"
#include "cleave/plan/tune/partition_search.h"
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

/// What one layout of this machine takes, from the profile of its segments. In its config, which
/// has to outlive this, nothing but the partition is "auto".
class LayoutCosts {
 public:
  LayoutCosts(const Config& config, DeviceCosts& devices);
  LayoutCosts(const LayoutCosts&) = delete;

  /// The segments and devices of one pipeline. Bytes are near enough to cut by; compiling has the
  /// last word on them.
  plan::PartitionProblem problem();

  /// Seconds after the last backward: NORM, STEP, and what replicas exchange.
  double after_pipeline();

  /// Seconds that no cut and no schedule of this layout can go below.
  double bound();

  /// The costs of everything in the program of `step`, which is the config compiled.
  plan::Costs costs(const engine::CompiledStep& step);

  /// Devices of one tensor group, as one, that can compute at the same time; 0: all.
  double places_at_once() { return devices_.at_once(config_) / layout_.tensor; }

  /// Seconds of latency that the worst link between two stages has; nothing within a process.
  double slowest_latency();

  /// Seconds that a device adds up activations with its tensor group in a step, while all devices
  /// compute.
  double crowded_sums() { return crowd() * tensor_sums(); }

 private:
  enum class Group : std::uint8_t { Tensor, Replicas };
  double crowd();  ///< how many times as long compute takes while all devices compute
  double tensor_sums();
  double recompute_of(std::size_t part);
  plan::LinkCosts sum_within(Group group);
  plan::LinkCosts link_between(std::span<const int> from, std::span<const int> to);
  std::vector<plan::LinkCosts> links_of_stages(const std::vector<std::vector<int>>& placement);
  double speed_at(int place) const;
  plan::StageCosts time_of(std::size_t part);
  plan::StageCosts stage_costs(std::size_t first, std::int64_t parts, double parameters);
  std::vector<plan::StageCosts> segment_costs(std::size_t first, std::int64_t parts,
                                              const Graph& model);

  const Config& config_;
  DeviceCosts& devices_;
  engine::CompileOptions options_;
  const plan::Layout& layout_;
  Mesh mesh_;
};

}  // namespace cleave::train
