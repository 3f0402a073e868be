#include "cleave/train/tune/auto_space.h"

#include <algorithm>

#include "cleave/engine/compile/laid_out.h"
#include "cleave/model/family.h"
#include "cleave/plan/tune/partition.h"
#include "cleave/train/config/module_checks.h"

namespace cleave::train {
namespace {

using schedule::Recompute;

std::optional<int> narrow(const Auto& value) {
  return value ? std::optional(static_cast<int>(*value)) : std::nullopt;
}

/// Tensor degrees that divide what is divided among them; to emulated devices `auto` gives whole
/// layers.
std::vector<int> tensor_degrees(const Config& config) {
  if (config.parallel.tensor) return {static_cast<int>(*config.parallel.tensor)};
  if (config.devices.emulate) return {1};
  std::vector<int> result;
  for (int t = 1; t <= config.devices.count; t *= 2) {
    if (config.devices.count % t != 0 || !can_share(config.model, t)) break;
    if (config.numerics.tensor_shards.value_or(t) % t == 0) result.push_back(t);
  }
  return result;
}

/// Blocks of a tower that may have devices and replicas of its own. Where devices may be lost or
/// have owners, all modules have equally many.
std::int64_t tower_blocks(const Config& config) {
  const bool elastic = config.devices.transport == Transport::Tcp && config.train.elastic;
  if (!has_tower(config) || is_graph(config) || elastic || !config.edge.owners.empty()) return 0;
  return config.parallel.chunks.value_or(1) == 1 ? config.model.blocks() - config.model.layers : 0;
}

/// The model in its least form: what it is made of, and who reads whom.
Graph outline_of(const Config& config) {
  return model::graph_of(config.model, {.sequence = config.train.sequence});
}

}  // namespace

bool is_graph(const Config& config) {
  return !plan::part_edges(outline_of(config)).empty();
}

bool has_loss_over_step(const Config& config) {
  return std::ranges::any_of(outline_of(config).segments, engine::runs_per_step);
}

bool can_share(const ModelShape& m, std::int64_t tensor) {
  const auto divides = [&](std::int64_t whole) { return whole % tensor == 0; };
  return divides(m.heads) && divides(m.kv_heads) && divides(m.ffn) && divides(m.vision.heads) &&
         divides(m.vision.ffn);
}

plan::LayoutSpace space_of(const Config& config) {
  const ParallelConfig& p = config.parallel;
  plan::LayoutSpace space{.devices = config.devices.count,
                          .layers = config.model.blocks(),
                          .encoder_layers = tower_blocks(config),
                          .batch = config.train.batch,
                          .given = {.order = p.order, .sequence_parallel = p.sequence_parallel},
                          .tensor = tensor_degrees(config),
                          .pipeline = narrow(p.pipeline),
                          .data = narrow(p.data),
                          .data_shards = config.numerics.data_shards,
                          .microbatch = narrow(config.train.microbatch),
                          .chunks = narrow(p.chunks),
                          .any_graph = is_graph(config),
                          .keeps_all = has_loss_over_step(config)};
  if (p.schedule != "auto") space.schedule = p.schedule;
  if (p.partition) space.given.partition = *p.partition;
  // Emulated devices hold no model. Where memory is no matter, ZeRO 1 may still save time.
  const bool emulated = config.devices.emulate.has_value();
  const bool limited = !config.devices.memory.empty() && !emulated;
  if (p.zero)
    space.given.zero = static_cast<int>(*p.zero);
  else
    space.most_zero = emulated ? 0 : !limited ? 1 : config.packs_embedding ? 2 : 3;
  if (p.recompute)
    space.given.recompute = *p.recompute;
  else if (limited)
    space.recompute = {Recompute::None, Recompute::Selective, Recompute::Full};
  else
    space.recompute = {Recompute::None};
  return space;
}

Config with_layout(const Config& config, const plan::Layout& layout) {
  Config run = config;
  ParallelConfig& p = run.parallel;
  p.pipeline = layout.pipeline;
  p.tensor = layout.tensor;
  p.data = layout.data;
  p.schedule = layout.schedule;
  p.chunks = layout.chunks > 0 ? Auto(layout.chunks) : std::nullopt;
  p.partition = layout.partition.empty() ? Partition() : layout.partition;
  p.zero = layout.zero;
  p.recompute = layout.recompute;
  if (layout.replicas_differ()) {
    p.placement = Placement::Own;
    p.vision_pipeline = layout.encoder_stages;
    p.vision_data = layout.encoder_data;
  }
  run.train.microbatch = layout.microbatch;
  run.numerics.data_shards = run.numerics.data_shards.value_or(layout.replicas());
  run.numerics.tensor_shards = run.numerics.tensor_shards.value_or(layout.tensor);
  return run;
}

}  // namespace cleave::train
