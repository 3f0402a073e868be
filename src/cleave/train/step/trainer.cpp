#include "cleave/train/step/trainer.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "cleave/base/check.h"
#include "cleave/engine/compile/traffic.h"
#include "cleave/engine/measure/profile.h"
#include "cleave/train/step/cuts.h"
#include "cleave/train/step/random_source.h"
#include "cleave/train/step/round_server.h"
#include "cleave/train/step/round_slots.h"

namespace cleave::train {
namespace {

using Clock = std::chrono::steady_clock;

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

}  // namespace

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
  if (data.held != nullptr) held_.emplace(*data.held);
  if (config.edge.averages()) {
    rounds_.emplace(config, compiled, data, device_, world, held_ ? &*held_ : nullptr);
    optimizer_.set_shared(shared_part(config, compiled.model).parameters);
    optimizer_.hold_to(kStartSlot, config.edge.proximal);
    if (config.edge.by_example()) examples_.emplace(config, *data.clients, world, optimizer_);
  } else if (clients_ != nullptr) {
    source_.deal_to(*clients_, config.train.batch / clients_->clients());
  }
  // What clients elsewhere hold out is not here, and the server alone looks at a set of its own.
  const bool elsewhere =
      data.exchange != nullptr &&
      (!data.exchange->is_server() || !server_evaluates(*data.data) || data.turns != nullptr);
  if (const data::Dataset* held_out = data.data->validation(); held_out && !elsewhere) {
    const bool dealt = clients_ != nullptr && !config.edge.averages();
    validation_.emplace(*held_out, compiled, device, *config.train.microbatch,
                        dealt ? data.data->held_out() : std::vector<std::int64_t>{});
  }
}

engine::Profile Trainer::profile(double at_once) {
  RandomSource source(1, compiled_->model, compiled_->usual_items);
  optimizer_.begin_step(0);
  return engine::profile(*compiled_, device_, {.source = &source, .optimizer = &optimizer_}, world_,
                         {.at_once = at_once, .steps = config_->train.steps});
}

void Trainer::initialise() {
  device_.initialise(static_cast<std::uint64_t>(config_->train.seed));
  if (held_) held_->device().initialise(static_cast<std::uint64_t>(config_->train.seed));
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
  return device_.executor().run({.source = &source_,
                                 .optimizer = &optimizer_,
                                 .loss_scale = source_.loss_scale(),
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
  rounds_->share(round, step.step - 1);
  step.loss = round.loss;
  step.gradient_norm = round.gradient_norm;
  step.stop = round.stop;
}

comm::Sent Trainer::planned_sent() const {
  const comm::Sent fullest = compiled_->traffic_of(pattern_)[world_.rank()];
  if (compiled_->fewer.empty()) return fullest;
  const std::vector<const engine::Stage*> stages = device_.stages();
  engine::TrafficParts parts =
      engine::traffic_parts(*compiled_, compiled_->program_of(pattern_), stages, world_.rank());
  const comm::Sent of_room = engine::layer_traffic(parts);
  parts.items = [this](int microbatch) { return source_.items(microbatch); };
  return fullest - of_room + engine::layer_traffic(parts);
}

/// Nothing was updated, and the next step follows.
StepReport Trainer::leave_out_step() {
  ++skipped_;
  ++steps_done_;
  return {.step = steps_done_,
          .loss = std::numeric_limits<double>::quiet_NaN(),
          .gradient_norm = std::numeric_limits<double>::quiet_NaN(),
          .lr = optimizer_.lr(),
          .skipped = true};
}

/// Runs the step again, looking at every tensor for the first that has `error`.
void Trainer::throw_where_it_began(engine::StepInput input, const NonFinite& error) {
  const std::string what = detail::concat("step ", steps_done_ + 1, ": ", error.what());
  input.search = engine::Search::NonFinite;
  try {
    device_.executor().run(input);
  } catch (const NonFinite& where) {
    throw NonFinite(what + "; " + where.what() +
                    "; lower train.lr, lengthen train.warmup, or set train.clip");
  }
  throw NonFinite(what);
}

StepReport Trainer::step(bool stop) {
  if (rounds_) return play_round(stop);
  const Clock::time_point start = Clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  optimizer_.begin_step(steps_done_);
  source_.begin_step(steps_done_);
  pattern_ = compiled_->pattern_of(source_.with_images());
  const engine::StepInput input{.source = &source_,
                                .optimizer = &optimizer_,
                                .loss_scale = source_.loss_scale(),
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
    if (skipped_ >= config_->train.skip_nonfinite) throw_where_it_began(input, error);
    StepReport left_out = leave_out_step();
    left_out.seconds = seconds();
    return left_out;
  }
  ++steps_done_;
  sent_ = world_.sent() - before;
  return {.step = steps_done_,
          .loss = result.loss,
          .gradient_norm = result.gradient_norm,
          .lr = optimizer_.lr(),
          .seconds = seconds(),
          .stop = result.stop};
}

std::optional<Evaluation> Trainer::evaluate() {
  if (evaluated_sequences() == 0) return std::nullopt;
  return validation_->run(device_.executor());
}

}  // namespace cleave::train
