#include "cleave/engine/run/executor.h"

#include <algorithm>
#include <utility>

#include "cleave/base/check.h"
#include "cleave/engine/run/exchanges.h"
#include "cleave/schedule/effects.h"

namespace cleave::engine {

using schedule::Instruction;
using schedule::Op;
static_assert(MicrobatchSource::kAll == SegmentPass::kAllItems);

Executor::Executor(Parts parts)
    : parts_(std::move(parts)),
      sync_({.program = parts_.program,
             .device = parts_.device,
             .stages = parts_.stages,
             .tie_names = parts_.tie_names,
             .compute = parts_.compute,
             .peers = parts_.peers,
             .on_host = scratch_on_host(*parts_.program, parts_.device, parts_.host)}),
      replicas_(sync_.replicas()),
      sums_({.program = parts_.program,
             .device = parts_.device,
             .pieces = parts_.pieces,
             .stages = parts_.stages,
             .replicas = replicas_,
             .fold = parts_.fold,
             .world = parts_.world}),
      values_(parts_.stages, replicas_),
      collections_(*parts_.program, parts_.stages, replicas_),
      collectives_({.sums = &sync_,
                    .values = &values_,
                    .collections = &collections_,
                    .memory = &parts_.arena->memory(),
                    .host = parts_.host}),
      messages_(programs(), *parts_.world, parts_.place),
      moves_(parts_.linked, parts_.arena->memory(), parts_.outside),
      host_messages_(host_messages_of(parts_)),
      replica_(schedule::Topology(*parts_.program).replica[parts_.device]),
      microbatches_(schedule::Topology(*parts_.program).microbatches(parts_.device)) {
  reserve_room();
  take_lasting();
  for (const Block& block : parts_.linked.lasting)
    planned_bytes_ = std::max(planned_bytes_, block.offset + block.bytes);
  parts_.world->make_room(/*collectives=*/1, messages_.at_once());
  parts_.world->log().reserve(most_exchanges(parts_.linked, parts_.stages));
  for (Stage* stage : parts_.stages)
    if (stage != nullptr) stage->set_between_layers([this] { look_after_messages(); });
}

/// For whatever the largest program has at a time, so that no step allocates.
void Executor::reserve_room() {
  std::size_t blocks = 0;
  std::size_t instructions = 0;
  int slots = 0;
  int exchanges = 0;
  for (const LinkedProgram* program : programs()) {
    std::size_t own = 0;
    exchanges = std::max(exchanges, program->exchanges_on_host);
    slots = std::max(slots, program->slots);
    for (const LinkedInstruction& entry : program->instructions) own += entry.acquire.size();
    blocks = std::max(blocks, own);
    instructions = std::max(instructions, program->instructions.size());
  }
  blocks += parts_.linked.lasting.size();
  parts_.arena->reserve_blocks(blocks);
  if (parts_.host != nullptr)
    parts_.host->reserve_blocks(static_cast<std::size_t>(slots + exchanges + 1));
  spans_.reserve(2 * instructions);
}

namespace {

std::vector<const LinkedProgram*> programs_of(const Executor::Parts& parts) {
  std::vector<const LinkedProgram*> all = {&parts.linked, &parts.evaluation};
  for (const LinkedProgram& program : parts.patterns) all.push_back(&program);
  for (const LinkedProgram& program : parts.evaluations) all.push_back(&program);
  return all;
}

}  // namespace

std::vector<const LinkedProgram*> Executor::programs() const {
  return programs_of(parts_);
}

HostMessages Executor::host_messages_of(const Parts& parts) {
  int moves = 0;
  int slots = 0;
  for (const LinkedProgram* program : programs_of(parts)) {
    moves = std::max(moves, program->message_moves);
    slots = std::max(slots, program->slots);
  }
  return {static_cast<std::size_t>(moves),
          static_cast<std::size_t>(slots),
          parts.arena->memory(),
          parts.host,
          *parts.world,
          parts.alone_at_place ? HostMessages::Sending::WhenMoved : HostMessages::Sending::AtOnce};
}

/// After an exception the memory of what did not end is free again.
const LinkedProgram& Executor::begin(const LinkedProgram& program) {
  if (interrupted_) take_lasting();
  interrupted_ = true;
  planned_bytes_ = std::max(planned_bytes_, program.planned_bytes);
  planned_outside_bytes_ = std::max(planned_outside_bytes_, program.planned_outside_bytes);
  planned_host_bytes_ = std::max(planned_host_bytes_, program.planned_host_bytes);
  return program;
}

double Executor::now() const {
  return std::chrono::duration<double>(Clock::now() - start_).count();
}

void Executor::take_lasting() {
  moves_.begin_step();
  host_messages_.begin_step();
  parts_.arena->release_all();
  for (const Block& block : parts_.linked.lasting) parts_.arena->acquire(block.offset, block.bytes);
  if (parts_.host == nullptr) return;
  parts_.host->release_all();
  const Block& scratch = parts_.linked.scratch_on_host;
  if (scratch.bytes > 0) parts_.host->acquire(scratch.offset, scratch.bytes);
}

/// One instruction, with the memory that is its own alone.
void Executor::perform(const LinkedInstruction& entry, const StepInput& input) {
  for (const Block& block : entry.acquire) parts_.arena->acquire(block.offset, block.bytes);
  try {
    execute(entry, input);
    parts_.compute->finish();  // what moves beside kernels finds them done
  } catch (const DeviceLost& error) {
    throw_lost(entry, error);
  }
}

void Executor::release(const LinkedInstruction& entry) {
  for (const Block& block : entry.release) parts_.arena->release(block.offset);
}

StepResult Executor::run(const StepInput& input) {
  const LinkedProgram& program =
      begin(input.pattern == StepInput::kFullest ? parts_.linked : parts_.patterns[input.pattern]);
  start_ = Clock::now();
  spans_.clear();
  held_up_ = {};
  sync_.begin_step();
  parts_.world->log().clear();
  result_ = {};
  sums_.begin_step();
  for (const LinkedInstruction& entry : program.instructions) {
    const Clock::duration at_messages = spent_at_messages();
    const double begin = now();
    perform(entry, input);
    spans_.push_back({.device = parts_.device,
                      .kind = plan::span_kind(entry.instruction.op),
                      .begin = begin,
                      .end = now(),
                      .instruction = entry.instruction});
    const Op op = entry.instruction.op;
    if (schedule::is_compute(op) || op == Op::Step) held_up_ += spent_at_messages() - at_messages;
    release(entry);
    look_after_messages();
  }
  interrupted_ = false;
  return result_;
}

void Executor::execute(const LinkedInstruction& entry, const StepInput& input) {
  ops::Compute& compute = *parts_.compute;
  const Instruction& instruction = entry.instruction;
  const bool computes = !schedule::is_message(instruction) && !schedule::is_move(instruction);
  if (parts_.emulator != nullptr && computes) return emulate(instruction, input);
  for (const SegmentOf& sum : entry.cleared) sync_.clear(sum.stage, sum.segment);
  SegmentPass pass = entry.pass;
  pass.loss_scale = input.loss_scale;
  const bool may_wait = schedule::effects(instruction.op).members != schedule::Members::Alone;
  if (may_wait && !schedule::is_message(instruction)) host_messages_.flush();
  pass.microbatch = number_of(pass, input);
  if (entry.stage != nullptr && entry.stage->has_fewer())
    pass.items = input.source->items(instruction.microbatch);
  switch (instruction.op) {
    case Op::Forward:
      return note(input, instruction.microbatch, forward(entry, pass, input));
    case Op::Recompute:
      load(entry, pass, *input.source, &Stage::tensor_again);
      return entry.stage->recompute(compute, pass);
    case Op::BackwardInput:
      return entry.stage->backward_input(compute, pass, input.search);
    case Op::BackwardWeight:
      entry.stage->backward_weight(compute, pass);
      return sync_.merge(StageId{instruction.stage}, SegmentId{pass.segment}, entry.merges);
    case Op::Backward:
      entry.stage->backward(compute, pass, input.search);
      return sync_.merge(StageId{instruction.stage}, SegmentId{pass.segment}, entry.merges);
    case Op::Send:
    case Op::Receive:
      return post(entry);
    case Op::Wait:
      return finish(entry, input);
    case Op::Reduce:
    case Op::Refresh:
    case Op::Gather:
    case Op::Collect:
      return collectives_.post(entry);
    case Op::Tie:
      return sync_.tie(instruction.edge);
    case Op::Norm:
      return norm(input);
    case Op::Step:
      return step(instruction, input);
    case Op::Out:
    case Op::In:
      return schedule::is_message_move(instruction) ? move_message(entry) : moves_.post(entry);
    case Op::Free:
      return;  // the plan gives its memory to others
  }
}

/// NORM brings all devices together, emulated or not.
void Executor::emulate(const Instruction& instruction, const StepInput& input) {
  parts_.emulator->run(instruction);
  if (instruction.op != Op::Norm) return;
  double stop = input.stop ? 1 : 0;
  parts_.world->combine(std::span(&stop, 1), comm::Combine::Sum);
  result_.stop = stop > 0;
}

void Executor::note(const StepInput& input, int microbatch, const MicrobatchSums& sums) {
  if (input.evaluated.empty()) return sums_.add_loss(microbatch, sums.loss);
  input.evaluated[microbatch].loss += sums.loss;
  input.evaluated[microbatch].hits += sums.hits;
}

void Executor::load(const LinkedInstruction& entry, const SegmentPass& pass,
                    MicrobatchSource& source, InputPlace place) {
  for (const StageInput& input : entry.stage->inputs(pass.segment)) {
    const View tensor = (entry.stage->*place)(input, pass);
    const auto fill = [&](View host) {
      source.load(entry.instruction.microbatch, input.name, host);
    };
    if (tensor) write_on_host(parts_.arena->memory(), tensor, fill);
  }
}

/// Evaluating knows no microbatches of a run: what is drawn there depends on places alone.
std::int64_t Executor::number_of(const SegmentPass& pass, const StepInput& input) const {
  if (!input.evaluated.empty()) return 0;
  const std::int64_t of_step = parts_.program->replicas * parts_.program->microbatches;
  return input.number * of_step + pass.number;
}

MicrobatchSums Executor::forward(const LinkedInstruction& entry, const SegmentPass& pass,
                                 const StepInput& input) {
  Stage& stage = *entry.stage;
  Memory& memory = parts_.arena->memory();
  load(entry, pass, *input.source, &Stage::tensor_of);
  stage.forward(*parts_.compute, pass, input.search);

  const View losses = stage.losses(pass);
  if (!losses || !parts_.counts_loss) return {};
  MicrobatchSums sums;
  const std::int64_t samples = losses.size(losses.rank() - 1);
  read_on_host(memory, losses, [&](ConstView host) {
    const float* values = host.as<float>();
    for (std::int64_t t = 0; t < samples; ++t) sums.loss += static_cast<double>(values[t]);
    for (std::int64_t t = samples; t < host.elements(); ++t)
      sums.hits += static_cast<double>(values[t]);
  });
  return sums;
}

void Executor::evaluate(MicrobatchSource& source, std::span<MicrobatchSums> sums, int pattern) {
  std::ranges::fill(sums, MicrobatchSums{});
  const StepInput input{
      .source = &source,
      .evaluated = sums.subspan(static_cast<std::size_t>(replica_ * parts_.evaluated_at_once))};
  const LinkedProgram& program =
      begin(pattern == StepInput::kFullest ? parts_.evaluation : parts_.evaluations[pattern]);
  for (const LinkedInstruction& entry : program.instructions) {
    perform(entry, input);
    release(entry);
  }
  interrupted_ = false;
  const std::span numbers(&sums.front().loss, 2 * sums.size());
  static_assert(sizeof(MicrobatchSums) == 2 * sizeof(double));
  parts_.world->combine(numbers, comm::Combine::Sum);
}

}  // namespace cleave::engine
