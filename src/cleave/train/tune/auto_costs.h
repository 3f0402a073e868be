#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cleave/engine/compile/compile.h"
#include "cleave/plan/tune/partition_search.h"
#include "cleave/train/config/config.h"
#include "cleave/train/tune/device_costs.h"

namespace cleave::train {

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
  double bound_apart(std::span<const double> work);
  std::vector<plan::StageCosts> segment_costs(const Graph& model);
  plan::StageCosts stage_costs(std::span<const plan::StageCosts> segments, double parameters,
                               int replicas);

  const Config& config_;
  DeviceCosts& devices_;
  engine::CompileOptions options_;
  const plan::Layout& layout_;
  Mesh mesh_;
};

}  // namespace cleave::train
