#include "cleave/train/step/trainer.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "cleave/base/check.h"
#include "cleave/engine/compile/held_state.h"
#include "cleave/engine/compile/staging.h"
#include "cleave/engine/measure/profile.h"
#include "cleave/spec/trainable.h"
#include "cleave/train/config/config_checks.h"
#include "cleave/train/step/cuts.h"
#include "cleave/train/step/emulation.h"
#include "cleave/train/step/numerics.h"
#include "cleave/train/step/owner_flow.h"
#include "cleave/train/step/random_source.h"
#include "cleave/train/step/round_server.h"
#include "cleave/train/step/round_slots.h"

namespace cleave::train {
namespace {

using Clock = std::chrono::steady_clock;

std::vector<std::int64_t> one_each(const std::vector<std::int64_t>& given, std::int64_t devices) {
  if (given.size() != 1) return given;
  return std::vector<std::int64_t>(static_cast<std::size_t>(devices), given[0]);
}

BatchSource::Share share_of(const Config& config, const engine::CompiledStep& compiled, int device,
                            const ClientData* clients) {
  const int replicas = compiled.program.replicas;
  const int replica = compiled.replica_of(device);
  const std::int64_t share = batch_of_program(config) / replicas;
  BatchSource::Share own{.first = replica * share, .microbatch = *config.train.microbatch};
  if (deals_by_content(compiled.model, clients)) {
    const std::int64_t shards = compiled.fold.shards;
    own.dealing = {.shards = replicas * shards,
                   .first_shard = replica * shards,
                   .per_shard = compiled.fold.per_shard()};
  }
  return own;
}

/// A real run has no costs before it is compiled.
decltype(engine::CompileOptions::costs) order_costs(const Config& config) {
  if (!config.devices.emulate) return nullptr;
  return [config](const schedule::Program& program) { return emulated_costs(config, program); };
}

}  // namespace

Graph model_of(const Config& config) {
  Graph model = model::graph_of(config.model,
                                {.sequences = *config.train.microbatch,
                                 .sequence = config.train.sequence,
                                 .dtype = config.train.dtype,
                                 .images = config.data.images,
                                 .documents = config.data.borders == data::Borders::Kept,
                                 .step = batch_of_program(config)},
                                config.train.loss_blocks);
  if (config.lora.rank > 0 && config.trained.empty()) freeze(model.segments);
  train_only(model.segments, config.trained);
  add_adapters(model, config.lora);
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
                     .offload = parallel.offload,
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
  if (train.checkpoint_every > 0 && train.checkpoint_every < train.steps)
    engine::plan_staging(step);
}

engine::CompiledStep compile_step(const Config& config, const DataInputs& inputs) {
  engine::CompileOptions options = compile_options(config);
  options.optional_inputs = inputs.steps;
  options.evaluated_inputs = inputs.evaluated;
  engine::CompiledStep step = engine::compile(model_of(config), options);
  check_rounds(config);
  check_flow(config, step);
  plan_copies(config, step);
  engine::require_room_for_held_state(step);
  return step;
}

Trainer::Trainer(const Config& config, const TrainingData& data,
                 const engine::CompiledStep& compiled, int device, comm::Communicator& world)
    : config_(&config),
      compiled_(&compiled),
      world_(world),
      device_(compiled, device, static_cast<int>(config.devices.threads), world),
      optimizer_(config.train),
      clients_(data.clients),
      source_(data.data->training(), compiled.model,
              share_of(config, compiled, device, data.clients)) {
  if (config.edge.averages()) {
    rounds_.emplace(config, compiled, data, device_, world);
    optimizer_.set_shared(shared_part(config, compiled.model).parameters);
    optimizer_.hold_to(kStartSlot, config.edge.proximal);
    if (config.edge.by_example()) examples_.emplace(config, *data.clients, world, optimizer_);
  } else if (clients_ != nullptr) {
    source_.deal_to(*clients_, config.train.batch / clients_->clients());
  }
  // What clients elsewhere hold out is not here, and the server alone looks at a set of its own.
  const bool elsewhere =
      data.exchange != nullptr && (!data.exchange->is_server() || !server_evaluates(*data.data));
  if (const data::Dataset* held_out = data.data->validation(); held_out && !elsewhere) {
    const bool dealt = clients_ != nullptr && !config.edge.averages();
    validation_.emplace(*held_out, compiled, device, *config.train.microbatch,
                        dealt ? data.data->held_out() : std::vector<std::int64_t>{});
  }
}

plan::Costs Trainer::profile(double at_once) {
  RandomSource source(1, compiled_->model);
  optimizer_.begin_step(0);
  return engine::profile(*compiled_, device_, {.source = &source, .optimizer = &optimizer_}, world_,
                         {.at_once = at_once, .steps = config_->train.steps});
}

void Trainer::initialise() {
  device_.initialise(static_cast<std::uint64_t>(config_->train.seed));
  continue_after(0);
}

void Trainer::initialise_some(const std::function<bool(const std::string&)>& wanted) {
  device_.initialise_some(static_cast<std::uint64_t>(config_->train.seed), wanted);
  continue_after(0);
}

void Trainer::continue_after(std::int64_t steps) {
  steps_done_ = steps;
  if (rounds_) rounds_->continue_after(steps);
}

void Trainer::share_start() {
  if (rounds_) continue_after(rounds_->share_start(steps_done_));
}

engine::StepResult Trainer::train_batch(const ClientTurn& turn, std::int64_t step, bool stop) {
  source_.begin_batch_of(*clients_, turn.client, turn.first + step * config_->train.batch);
  const auto losses = static_cast<double>(std::max<std::int64_t>(1, source_.step_targets()));
  return device_.executor().run({.source = &source_,
                                 .optimizer = &optimizer_,
                                 .loss_scale = static_cast<float>(1.0 / losses),
                                 .stop = stop});
}

ClientResult Trainer::train_client(const ClientTurn& turn, bool stop) {
  ClientResult result;
  for (std::int64_t i = 0; i < turn.steps; ++i) {
    optimizer_.begin_step(turn.round, turn.taken + i, turn.shared + i);
    const comm::Sent before = world_.sent();
    try {
      const engine::StepResult step =
          examples_ ? examples_->run({turn.client, turn.round, i}, device_, source_, stop)
                    : train_batch(turn, i, stop);
      result.loss += step.loss / static_cast<double>(turn.steps);
      result.gradient_norm += step.gradient_norm / static_cast<double>(turn.steps);
      result.stop = result.stop || step.stop;
    } catch (const NonFinite& error) {
      throw NonFinite(detail::concat("round ", turn.round + 1, ", client ", turn.client, ", step ",
                                     i + 1, ": ", error.what(),
                                     "; lower train.lr, or set train.clip"));
    }
    sent_ = world_.sent() - before;
  }
  return result;
}

StepReport Trainer::play_round(bool stop) {
  const Clock::time_point start = Clock::now();
  const RoundReport round = rounds_->play(
      steps_done_, stop, [&](const ClientTurn& turn) { return train_client(turn, stop); });
  ++steps_done_;
  return {.step = steps_done_,
          .loss = round.loss,
          .gradient_norm = round.gradient_norm,
          .lr = optimizer_.lr(),
          .seconds = std::chrono::duration<double>(Clock::now() - start).count(),
          .stop = round.stop,
          .local_steps = round.steps,
          .participants = round.participants,
          .absent = round.absent};
}

void Trainer::share_round(StepReport& step) {
  RoundReport round{.loss = step.loss, .gradient_norm = step.gradient_norm, .stop = step.stop};
  rounds_->share(round);
  step.loss = round.loss;
  step.gradient_norm = round.gradient_norm;
  step.stop = round.stop;
}

StepReport Trainer::step(bool stop) {
  if (rounds_) return play_round(stop);
  const Clock::time_point start = Clock::now();
  optimizer_.begin_step(steps_done_);
  source_.begin_step(steps_done_);
  pattern_ = compiled_->pattern_of(source_.with_images());
  // A batch may happen to have nothing to predict; its loss is 0 then.
  const auto losses = static_cast<double>(std::max<std::int64_t>(1, source_.step_targets()));
  engine::StepInput input{.source = &source_,
                          .optimizer = &optimizer_,
                          .loss_scale = static_cast<float>(1.0 / losses),
                          .stop = stop,
                          .pattern = pattern_,
                          .watch = watch_,
                          .number = steps_done_};
  const comm::Sent before = world_.sent();
  engine::StepResult result;
  try {
    result = device_.executor().run(input);
  } catch (const NonFinite& error) {
    // All devices have the same numbers at NORM, so all of them come here, and none has updated.
    if (skipped_ < config_->train.skip_nonfinite) {
      ++skipped_;
      ++steps_done_;
      return {.step = steps_done_,
              .loss = std::numeric_limits<double>::quiet_NaN(),
              .gradient_norm = std::numeric_limits<double>::quiet_NaN(),
              .lr = optimizer_.lr(),
              .seconds = std::chrono::duration<double>(Clock::now() - start).count(),
              .skipped = true};
    }
    const std::string step = "step " + std::to_string(steps_done_ + 1) + ": ";
    input.search = engine::Search::NonFinite;
    try {
      device_.executor().run(input);
    } catch (const NonFinite& where) {
      throw NonFinite(step + error.what() + "; " + where.what() +
                      "; lower train.lr, lengthen train.warmup, or set train.clip");
    }
    throw NonFinite(step + error.what());
  }
  ++steps_done_;
  sent_ = world_.sent() - before;
  return {.step = steps_done_,
          .loss = result.loss,
          .gradient_norm = result.gradient_norm,
          .lr = optimizer_.lr(),
          .seconds = std::chrono::duration<double>(Clock::now() - start).count(),
          .stop = result.stop};
}

std::optional<Evaluation> Trainer::evaluate() {
  if (evaluated_sequences() == 0) return std::nullopt;
  return validation_->run(device_.executor());
}

}  // namespace cleave::train
