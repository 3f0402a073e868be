// What goes on beside an executor's instructions: messages, collectives and moves that it posts and
// finishes.
#include "cleave/base/check.h"
#include "cleave/engine/run/exchanges.h"
#include "cleave/engine/run/executor.h"

namespace cleave::engine {

using schedule::Instruction;
using schedule::Op;

bool Executor::passes_through_host() const {
  return schedule::passes_through_host(*parts_.program, parts_.device);
}

/// Neither large MPI messages nor collectives get anywhere on their own.
void Executor::look_after_messages() {
  parts_.world->progress();
  host_messages_.look();
  if (sync_.reducing()) sync_.look();
}

std::vector<plan::CollectiveSpan> Executor::exchanges() const {
  return exchanges_of(parts_.world->log(), start_, spans_);
}

Executor::Clock::duration Executor::spent_at_messages() const {
  return parts_.world->log().spent();
}

void Executor::move_message(const LinkedInstruction& entry) {
  if (entry.instruction.op == Op::Out) return host_messages_.out(entry);
  host_messages_.in(entry);
}

void Executor::post(const LinkedInstruction& entry) {
  const bool sends = entry.instruction.op == Op::Send;
  if (passes_through_host())
    return sends ? host_messages_.send(entry) : host_messages_.receive(entry);
  if (parts_.emulator != nullptr) parts_.emulator->before_post(entry);
  messages_.post(entry);
}

void Executor::finish(const LinkedInstruction& entry, const StepInput& input) {
  const Instruction& wait = entry.instruction;
  if (!schedule::is_message(wait)) host_messages_.flush();
  switch (wait.completes) {
    case Op::Reduce:
    case Op::Gather:
    case Op::Refresh:
    case Op::Collect:
      return collectives_.finish(entry);
    case Op::Out:
    case Op::In:
      return finish_move(entry, input);
    default:
      finish_message(entry, input);
      if (parts_.emulator != nullptr) parts_.emulator->after_wait(entry);
      return;
  }
}

void Executor::finish_message(const LinkedInstruction& entry, const StepInput& input) {
  if (!passes_through_host()) return messages_.finish(entry);
  const Op op = entry.instruction.completes == Op::Send ? Op::Out : Op::In;
  record_move(input, entry.instruction, op, host_messages_.finish(entry));
}

/// The move itself went on beside other instructions: it has a span of its own.
void Executor::finish_move(const LinkedInstruction& entry, const StepInput& input) {
  record_move(input, entry.instruction, entry.instruction.completes, moves_.finish(entry));
}

void Executor::record_move(const StepInput& input, Instruction moved, Op op,
                           const Mover::Times& times) {
  if (!input.evaluated.empty()) return;
  const auto since_start = [&](Clock::time_point time) {
    return std::chrono::duration<double>(time - start_).count();
  };
  moved.op = op;
  moved.completes = Op::Forward;
  spans_.push_back({.device = parts_.device,
                    .peer = parts_.device,
                    .kind = plan::SpanKind::Transfer,
                    .begin = since_start(times.begin),
                    .end = since_start(times.end),
                    .instruction = moved});
}

/// Says at what instruction of the program the device was lost that this one waited for.
void Executor::throw_lost(const LinkedInstruction& entry, const DeviceLost& error) const {
  const Instruction& at = entry.instruction;
  std::string edge;
  if (schedule::is_message(at)) {
    const schedule::Edge& along = parts_.program->edges[at.edge];
    edge = detail::concat(" (edge ", at.edge, ", stage ", along.from, " to stage ", along.to, ")");
  }
  throw DeviceLost(detail::concat("at ", to_string(at), edge, ": ", error.what()));
}

}  // namespace cleave::engine
