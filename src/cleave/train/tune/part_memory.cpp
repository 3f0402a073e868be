#include "cleave/train/tune/part_memory.h"

#include <algorithm>
#include <span>
#include <string>

#include "cleave/engine/stage/gradient_sync.h"
#include "cleave/plan/memory/stage_layout.h"
#include "cleave/plan/memory/state_layout.h"
#include "cleave/plan/tune/partition.h"
#include "cleave/plan/tune/stage_gradients.h"
#include "cleave/spec/trainable.h"
#include "cleave/train/step/trainer.h"

namespace cleave::train {
namespace {

using plan::Region;
using schedule::Recompute;

/// The model as it is compiled: where no gradient is wanted, nothing is kept for one.
Graph compiled_model(const Config& config) {
  Graph model = model_of(config);
  leave_out_unwanted(model);
  return model;
}

std::int64_t kept_bytes(const SegmentSpec& segment, Recompute kind, std::int64_t tensor) {
  const plan::Keep keep =
      kind == Recompute::Selective ? plan::Keep::Costly : plan::Keep::Everything;
  const plan::StageLayout layout = plan::layout_stage(std::span(&segment, 1), plan::kWithin, keep);
  const std::int64_t x = layout.bytes_of(Region::Input);
  if (kind == Recompute::Full) return x;
  return (layout.bytes_of(Region::KeptForInput) + layout.bytes_of(Region::KeptForWeight)) / tensor +
         x;
}

/// The names that weights of the last segment are tied to.
std::vector<std::string> tied_names(const Graph& model) {
  std::vector<std::string> names;
  for (const LayerSpec& layer : model.segments.back().layers) {
    for (const ParameterSpec& parameter : layer.parameters)
      if (!parameter.tied_to.empty()) names.push_back(parameter.tied_to);
  }
  return names;
}

}  // namespace

Recompute recompute_of_part(const Config& config, std::size_t part) {
  if (part == 0 || part > static_cast<std::size_t>(config.model.blocks())) return Recompute::None;
  return plan::recompute_of({.recompute = *config.parallel.recompute}, part - 1);
}

std::vector<plan::SegmentWork> part_memory(const Config& config,
                                           const std::vector<std::vector<int>>& placement) {
  const Graph model = compiled_model(config);
  const engine::CompileOptions options = compile_options(config);
  const plan::Layout& layout = options.layout;
  const bool share = placement.front() == placement.back();
  const std::vector<std::string> resident = share ? tied_names(model) : std::vector<std::string>();
  const std::int64_t shards = config.numerics.data_shards.value_or(layout.data);
  const engine::ShardFold fold{.microbatches = options.microbatches,
                               .shards = static_cast<int>(shards / layout.data)};
  const plan::StateOptions lasting{.dtype = config.train.dtype,
                                   .resident = resident,
                                   .sums = fold.sums(),
                                   .zero = layout.zero,
                                   .replicas = layout.data};
  std::vector<plan::SegmentWork> parts;
  std::size_t segment = 0;
  const std::vector<schedule::GradientKind> gradients = plan::part_gradients(model);
  for (const std::int64_t segments : plan::parts_of(model)) {
    plan::SegmentWork work{.gradients = gradients[parts.size()]};
    for (std::int64_t k = 0; k < segments; ++k, ++segment) {
      const SegmentSpec& spec = model.segments[segment];
      const plan::StateLayout state = plan::layout_state(std::span(&spec, 1), lasting);
      work.state += (state.weights + state.gradients + state.optimizer) / layout.tensor;
      const Recompute kind = spec.block ? recompute_of_part(config, parts.size()) : Recompute::None;
      work.kept += kept_bytes(spec, kind, layout.tensor);
    }
    parts.push_back(work);
  }
  return parts;
}

std::int64_t bytes_between_blocks(const Config& config) {
  const Graph model = model_of(config);
  if (plan::part_edges(model).empty()) return model.segments.back().layers.front().x.bytes();
  std::int64_t most = 0;
  for (const SegmentSpec& segment : model.segments)
    if (segment.block) most = std::max(most, segment.layers.back().y.bytes());
  return most;
}

bool holds_a_block(const Config& config) {
  if (config.devices.memory.empty()) return true;
  std::int64_t most = 0;
  for (const SegmentSpec& segment : compiled_model(config).segments) {
    if (segment.block)
      most = std::max(most, kept_bytes(segment, Recompute::Selective, *config.parallel.tensor));
  }
  return most <= std::ranges::max(config.devices.memory);
}

}  // namespace cleave::train
