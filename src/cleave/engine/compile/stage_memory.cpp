#include "cleave/engine/compile/stage_memory.h"

#include <algorithm>

#include "cleave/engine/compile/wires.h"
#include "cleave/engine/stage/gradient_sync.h"
#include "cleave/engine/stage/parameter_sync.h"

namespace cleave::engine {
namespace {

/// y of the segment before, where some of its readers are in the stage.
std::int64_t passed_bytes(const Stage& stage, int segment) {
  if (segment == 0) return stage.layout(0).bytes_of(plan::Region::Input);
  const std::vector<int>& targets = stage.ports(segment - 1).targets;
  const bool inside = std::ranges::find(targets, -1) != targets.end();
  return inside ? stage.layout(segment - 1).bytes_of(plan::Region::Output) : 0;
}

std::int64_t collected_bytes(const SegmentSpec& segment) {
  std::int64_t bytes = 0;
  for (const LayerSpec& layer : segment.layers)
    for (const TensorSpec& tensor : layer.collected) bytes += tensor.bytes();
  return bytes;
}

/// x of all microbatches, where others have some of them.
std::int64_t collecting_on_host(const SegmentSpec& segment, int replicas) {
  if (replicas < 2) return 0;
  std::int64_t bytes = 0;
  for (const LayerSpec& layer : segment.layers)
    if (!layer.collected.empty()) bytes = std::max(bytes, layer.collected[0].bytes());
  return bytes;
}

plan::SegmentMemory memory_of(const Stage& stage, int segment) {
  using plan::Region;
  const plan::StageLayout& layout = stage.layout(segment);
  const plan::StateLayout& state = stage.parameters().layout();
  const plan::SegmentState& parameters = state.segments[segment];
  return {
      .kept_for_input = layout.bytes_of(Region::KeptForInput),
      .kept_for_weight = layout.bytes_of(Region::KeptForWeight),
      .input_kept = layout.bytes_of(Region::InputKept),
      .recomputed = layout.bytes_of(Region::Recomputed),
      .keeps_inputs_only = stage.keeps(segment) == plan::Keep::Inputs,
      .x = passed_bytes(stage, segment),
      .dy = std::ranges::count(stage.ports(segment).gradients, -1, &PortSource::edge) *
            layout.bytes_of(Region::OutputGradient),
      .x_until = pass_of(layout.input_until),
      .dy_until = pass_of(layout.gradient_until),
      .gathered = state.shares_values() ? parameters.all * size_of(state.options.dtype) : 0,
      .sums = state.shares_gradients() ? state.options.sums * parameters.gradient_bytes() : 0,
      .share = state.shares_gradients() ? parameters.share_bytes() : 0,
      .reducing = GradientSync::workspace_bytes(parameters, state.options.replicas),
      .collected = collected_bytes(stage.segments()[segment]),
      .state = parameters.state_end - parameters.state,
      .reducing_on_host = GradientSync::host_bytes(parameters, state.options.replicas),
      .gathering_on_host = ParameterSync::gather_host_bytes(state, segment),
      .refreshing_on_host = ParameterSync::refresh_host_bytes(state, segment),
      .collecting_on_host = collecting_on_host(stage.segments()[segment], state.options.replicas)};
}

}  // namespace

plan::StageMemory memory_of(const Stage& stage) {
  const plan::StateLayout& state = stage.parameters().layout();
  plan::StageMemory memory{.weights = state.weights,
                           .gradients = state.gradients,
                           .optimizer = state.optimizer,
                           .saved = state.saved};
  for (int s = 0; s < static_cast<int>(stage.segments().size()); ++s) {
    memory.segments.push_back(memory_of(stage, s));
  }
  memory.input_until = memory.segments.front().x_until;
  memory.gradient_until = memory.segments.back().dy_until;
  return memory;
}

}  // namespace cleave::engine
