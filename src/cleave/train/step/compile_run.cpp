#include <algorithm>

#include "cleave/base/check.h"
#include "cleave/engine/compile/held_state.h"
#include "cleave/engine/compile/staging.h"
#include "cleave/spec/packed_rows.h"
#include "cleave/spec/trainable.h"
#include "cleave/train/config/config_checks.h"
#include "cleave/train/step/cuts.h"
#include "cleave/train/step/emulation.h"
#include "cleave/train/step/numerics.h"
#include "cleave/train/step/owner_flow.h"
#include "cleave/train/step/owner_memory.h"
#include "cleave/train/step/trainer.h"

// From a config to a step that is planned and proven.
namespace cleave::train {
namespace {

std::vector<std::int64_t> one_each(const std::vector<std::int64_t>& given, std::int64_t devices) {
  if (given.size() != 1) return given;
  return std::vector<std::int64_t>(static_cast<std::size_t>(devices), given[0]);
}

/// A real run has no costs before it is compiled.
decltype(engine::CompileOptions::costs) order_costs(const Config& config) {
  if (!config.devices.emulate) return nullptr;
  return [config](const schedule::Program& program) { return emulated_costs(config, program); };
}

/// An emulated device that does not say how fast it moves things out moves none.
std::optional<schedule::Offload> offload_of(const Config& config) {
  const auto& emulate = config.devices.emulate;
  if (emulate && emulate->host == 0) return schedule::Offload::Nothing;
  return config.parallel.offload;
}

}  // namespace

Graph model_of(const Config& config, std::int64_t images) {
  Graph model = model::graph_of(config.model,
                                {.sequences = *config.train.microbatch,
                                 .sequence = config.train.sequence,
                                 .dtype = config.train.dtype,
                                 .images = config.data.images,
                                 .present_images = std::max<std::int64_t>(0, images),
                                 .documents = config.data.borders == data::Borders::Kept,
                                 .step = batch_of_program(config)},
                                config.train.loss_blocks);
  if (config.lora.rank > 0 && config.trained.empty()) freeze(model.segments);
  train_only(model.segments, config.trained);
  add_adapters(model, config.lora);
  if (config.packs_embedding) pack_embeddings(model);
  code_cuts(config, model);
  const engine::OptimizerKind& optimizer = optimizer_of(config);
  engine::give_slots(model.segments, optimizer, hyper_of(config.train, optimizer));
  return model;
}

engine::CompileOptions compile_options(const Config& config) {
  const ParallelConfig& parallel = config.parallel;
  const std::int64_t share = batch_of_program(config) / parallel.replicas();
  const std::optional<std::int64_t> vision_shards = config.numerics.vision_tensor_shards;
  return {.layout = {.pipeline = static_cast<int>(*parallel.pipeline),
                     .data = static_cast<int>(*parallel.data),
                     .tensor = static_cast<int>(*parallel.tensor),
                     .order = parallel.order,
                     .last_first = server_comes_first(config),
                     .sequence_parallel = parallel.sequence_parallel,
                     .chunks = static_cast<int>(parallel.chunks.value_or(0)),
                     .schedule = parallel.schedule,
                     .partition = parallel.partition.value_or(std::vector<std::int64_t>{}),
                     .cuts = client_cuts(config),
                     .placement = parallel.placement,
                     .encoder_stages = static_cast<int>(parallel.vision_pipeline.value_or(0)),
                     .encoder_data = static_cast<int>(parallel.vision_data.value_or(0)),
                     .encoder_tensor = static_cast<int>(parallel.vision_tensor.value_or(0)),
                     .zero = static_cast<int>(parallel.zero.value_or(0)),
                     .recompute = parallel.recompute.value_or(std::vector<schedule::Recompute>{}),
                     .offload = offload_of(config),
                     .receive_ahead = static_cast<int>(parallel.receive_ahead.value_or(1)),
                     .early = static_cast<int>(parallel.early.value_or(0)),
                     .microbatch = static_cast<int>(*config.train.microbatch)},
          .microbatches = static_cast<int>(share / *config.train.microbatch),
          .data_shards = static_cast<int>(config.numerics.data_shards.value_or(0)),
          .tensor_shards = static_cast<int>(config.numerics.tensor_shards.value_or(0)),
          .encoder_tensor_shards = static_cast<int>(vision_shards.value_or(0)),
          .threads = static_cast<int>(config.devices.threads),
          .device_kinds = config.devices.kind,
          .spill = config.devices.spill,
          .state_may_move = reason_state_stays(config).empty(),
          .arithmetic = arithmetic_of(config),
          .budgets = one_each(config.devices.memory, config.devices.count),
          .outside_budgets = one_each(config.devices.host_memory, config.devices.count),
          .optimizer = &optimizer_of(config),
          .hyper = hyper_of(config.train, optimizer_of(config)),
          .costs = order_costs(config)};
}

void plan_copies(const Config& config, engine::CompiledStep& step) {
  const TrainConfig& train = config.train;
  // Only devices that joined a server can be lost without ending the run.
  const bool can_lose = config.devices.transport == Transport::Tcp && train.elastic;
  if (can_lose) engine::plan_held_state(step, static_cast<int>(train.copies));
  // A round is saved before the next begins, by a server whose clients save nothing.
  const bool in_rounds = config.edge.averages() && owners_are_apart(config);
  if (train.checkpoint_every > 0 && train.checkpoint_every < train.steps && !in_rounds)
    engine::plan_staging(step);
}

namespace {

/// A part that does not fit is an owner's, who gave the memory, and not a device's.
engine::CompiledStep compile_for_owners(const Config& config, engine::CompileOptions options) {
  const Graph model = model_of(config);
  try {
    return engine::compile(model, options);
  } catch (const DoesNotFit&) {
    if (device_owners(config).empty()) throw;
    options.budgets.clear();
    check_owner_memory(config, engine::compile(model, options));
    throw;
  }
}

}  // namespace

void set_inputs(const Config& config, const DataInputs& inputs, engine::CompileOptions& options) {
  options.optional_inputs = inputs.steps;
  options.evaluated_inputs = inputs.evaluated;
  for (const std::int64_t images : inputs.images)
    options.fewer.push_back({images, model_of(config, images)});
  options.usual_items = inputs.usual_images;
}

engine::CompiledStep compile_step(const Config& config, const DataInputs& inputs) {
  engine::CompileOptions options = compile_options(config);
  set_inputs(config, inputs, options);
  engine::CompiledStep step = compile_for_owners(config, options);
  check_rounds(config);
  check_flow(config, step);
  plan_copies(config, step);
  engine::require_room_for_held_state(step);
  return step;
}

}  // namespace cleave::train
