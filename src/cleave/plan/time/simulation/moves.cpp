#include "cleave/plan/time/simulation/moves.h"

#include <algorithm>

namespace cleave::plan::simulation {

using schedule::Buffer;
using schedule::Instruction;
using schedule::Op;

Moves::Moves(const SimulationContext& context, Timeline& timeline)
    : context_(context), timeline_(timeline), free_at_(context.program.devices, 0.0) {
  for (const Buffer& b : context.program.buffers)
    if (is_outside(b)) bytes_[{b.device, b.stage, b.segment, b.microbatch}] = b.bytes;
}

double Moves::move(int device, const Instruction& instruction, std::int64_t bytes, double time) {
  const auto& outside = context_.costs.outside;
  const double length = outside.empty() ? 0 : outside[device].seconds(bytes);
  const double begin = std::max(time, free_at_[device]);
  // A message may be foreseen to arrive long after this; what is posted meanwhile goes first.
  if (instruction.edge < 0) free_at_[device] = begin + length;
  if (context_.options.record == Record::All && length > 0) {
    timeline_.add(device, SpanKind::Transfer, begin, begin + length, instruction);
    timeline_.trace.spans.back().peer = device;
  }
  return begin + length;
}

void Moves::post(int device, const Instruction& instruction, double time) {
  const Key key = key_of(device, instruction);
  const auto bytes = bytes_.find(key);
  done_[key] = move(device, instruction, bytes == bytes_.end() ? 0 : bytes->second, time);
}

double Moves::move_message(int device, const Instruction& message, double time) {
  if (!passes_through_host(context_.program, device)) return time;
  const schedule::Edge& edge = context_.program.edges[message.edge];
  const bool forward = message.direction == schedule::Direction::Forward;
  return move(device, message, forward ? edge.forward_bytes : edge.backward_bytes, time);
}

double Moves::out(int device, Instruction message, double time) {
  message.op = Op::Out;
  return move_message(device, message, time);
}

double Moves::in(int device, Instruction message, double time) {
  message.op = Op::In;
  return move_message(device, message, time);
}

bool Moves::blocks(int device, const Instruction& wait, double time) {
  const auto posted = done_.find(key_of(device, wait));
  if (posted == done_.end() || posted->second <= time) return false;
  timeline_.wake(device, posted->second);
  return true;
}

}  // namespace cleave::plan::simulation
