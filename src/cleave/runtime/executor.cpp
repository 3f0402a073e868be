#include "cleave/runtime/executor.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "cleave/base/check.h"
#include "cleave/base/units.h"
#include "cleave/ops/elementwise.h"

namespace cleave::runtime {

using schedule::Op;

Executor::Executor(Parts parts) : parts_(std::move(parts)), norm_(parts_.names, parts_.stages) {
  std::size_t blocks = parts_.linked.lasting.size();
  for (const LinkedInstruction& entry : parts_.linked.instructions) blocks += entry.acquire.size();
  parts_.arena->reserve_blocks(blocks);
  take_lasting();
  shared_.resize(parts_.program->microbatches + norm_.tensors());
  pending_.resize(parts_.linked.slots);
  spans_.reserve(2 * parts_.linked.instructions.size());
}

double Executor::now() const {
  return std::chrono::duration<double>(Clock::now() - start_).count();
}

void Executor::take_lasting() {
  parts_.arena->release_all();
  for (const Block& block : parts_.linked.lasting) parts_.arena->acquire(block.offset, block.bytes);
}

StepResult Executor::run(const StepInput& input) {
  if (interrupted_) take_lasting();
  interrupted_ = true;
  start_ = Clock::now();
  spans_.clear();
  result_ = {};
  std::ranges::fill(shared_, 0.0);
  for (const LinkedInstruction& entry : parts_.linked.instructions) {
    for (const Block& block : entry.acquire) parts_.arena->acquire(block.offset, block.bytes);
    const double begin = now();
    execute(entry, input);
    spans_.push_back({.device = parts_.device,
                      .kind = plan::span_kind(entry.instruction.op),
                      .begin = begin,
                      .end = now(),
                      .instruction = entry.instruction});
    for (const Block& block : entry.release) parts_.arena->release(block.offset);
  }
  interrupted_ = false;
  return result_;
}

void Executor::execute(const LinkedInstruction& entry, const StepInput& input) {
  ops::Compute& compute = *parts_.compute;
  Pass pass = entry.pass;
  pass.loss_scale = input.loss_scale;
  switch (entry.instruction.op) {
    case Op::Forward:
      shared_[entry.instruction.microbatch] = forward(entry, *input.source, input.search);
      return;
    case Op::BackwardInput:
      return entry.stage->backward_input(compute, pass, input.search);
    case Op::BackwardWeight:
      return entry.stage->backward_weight(compute, pass);
    case Op::Backward:
      return entry.stage->backward(compute, pass, input.search);
    case Op::Send:
    case Op::Receive:
      return post(entry);
    case Op::Wait:
      return wait(entry);
    case Op::Norm:
      return norm(input);
    case Op::Step:
      return step(input);
    default:
      CLEAVE_CHECK(false, "cannot run ", to_string(entry.instruction));
  }
}

double Executor::forward(const LinkedInstruction& entry, MicrobatchSource& source, Search search) {
  Stage& stage = *entry.stage;
  const int microbatch = entry.instruction.microbatch;
  const Frame& frame = entry.pass.frame;
  if (const View tokens = stage.tokens(frame)) source.load_tokens(microbatch, tokens);
  if (const View targets = stage.targets(frame)) source.load_targets(microbatch, targets);
  stage.forward(*parts_.compute, entry.pass, search);

  const View losses = stage.losses(frame);
  if (!losses) return 0;
  double sum = 0;
  const float* values = losses.as<float>();
  for (std::int64_t t = 0; t < losses.elements(); ++t) sum += static_cast<double>(values[t]);
  return sum;
}

double Executor::evaluate(MicrobatchSource& source) {
  for (const LinkedInstruction& entry : parts_.linked.instructions) {
    if (entry.instruction.op != Op::Forward) continue;
    for (const Block& block : entry.acquire) parts_.arena->acquire(block.offset, block.bytes);
    const double sum = forward(entry, source, Search::Off);
    for (const Block& block : entry.acquire) parts_.arena->release(block.offset);
    return sum;
  }
  return 0;
}

void Executor::post(const LinkedInstruction& entry) {
  comm::Communicator& world = *parts_.world;
  pending_[entry.slot] = entry.instruction.op == Op::Send
                             ? world.send(entry.message, entry.peer, entry.tag)
                             : world.receive(entry.message, entry.peer, entry.tag);
}

void Executor::wait(const LinkedInstruction& entry) {
  comm::Pending& pending = pending_[entry.slot];
  if (pending.wait_for(parts_.patience)) return;
  const schedule::Edge& edge = parts_.program->edges[entry.instruction.edge];
  throw DeviceLost(
      detail::concat("device ", parts_.device, " has waited ",
                     format_seconds(std::chrono::duration<double>(parts_.patience).count()), " at ",
                     to_string(entry.instruction), " (edge ", entry.instruction.edge, ", stage ",
                     edge.from, " to stage ", edge.to, "): ", pending.describe()));
}

/// A weight that two layers of this device share has a gradient for each use: head + embedding.
void Executor::tie_local() {
  for (Stage* stage : parts_.stages) {
    if (stage == nullptr) continue;
    for (const ParameterState& tied : stage->parameters()) {
      if (!tied.borrowed) continue;
      for (Stage* other : parts_.stages) {
        if (other == nullptr) continue;
        for (const ParameterState& owner : other->parameters()) {
          if (owner.spec->name != tied.spec->tied_to) continue;
          ops::add(*parts_.compute, tied.gradient, owner.gradient, owner.gradient);
        }
      }
    }
  }
}

void Executor::norm(const StepInput& input) {
  tie_local();
  const std::size_t microbatches = static_cast<std::size_t>(parts_.program->microbatches);
  const std::span<double> losses(shared_.data(), microbatches);
  const std::span<double> squares = std::span(shared_).subspan(microbatches);
  norm_.add_squares(*parts_.compute, squares);

  double loss = 0;
  for (double sum : losses) loss += sum;
  result_.loss = loss * static_cast<double>(input.loss_scale);
  result_.gradient_norm = GradientNorm::norm(squares);
  if (!std::isfinite(result_.loss)) throw NonFinite("the loss is not finite");
  if (!std::isfinite(result_.gradient_norm)) throw NonFinite("the gradient norm is not finite");
}

void Executor::step(const StepInput& input) {
  if (input.optimizer == nullptr) return;
  const double clip = input.optimizer->clip();
  const double norm = result_.gradient_norm;
  // As torch.nn.utils.clip_grad_norm_ does it.
  const double scale = clip > 0 ? std::min(1.0, clip / (norm + 1e-6)) : 1.0;
  for (Stage* stage : parts_.stages) {
    if (stage == nullptr) continue;
    for (const ParameterState& parameter : stage->parameters()) {
      if (!parameter.borrowed) input.optimizer->update(*parts_.compute, parameter, scale);
    }
  }
}

}  // namespace cleave::runtime
