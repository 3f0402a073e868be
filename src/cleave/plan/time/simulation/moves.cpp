#include "cleave/plan/time/simulation/moves.h"

#include <algorithm>

namespace cleave::plan::simulation {

using schedule::Buffer;
using schedule::Instruction;
using schedule::Op;

Moves::Moves(const Setting& setting, Timeline& timeline)
    : setting_(setting), timeline_(timeline), free_at_(setting.program.devices, 0.0) {
  for (const Buffer& b : setting.program.buffers)
    if (is_outside(b)) bytes_[{b.device, b.stage, b.segment, b.microbatch}] = b.bytes;
}

void Moves::post(int device, const Instruction& instruction, double time) {
  const Key key = key_of(device, instruction);
  const auto bytes = bytes_.find(key);
  const double length =
      setting_.costs.outside.empty()
          ? 0
          : setting_.costs.outside[device].seconds(bytes == bytes_.end() ? 0 : bytes->second);
  const double begin = std::max(time, free_at_[device]);
  free_at_[device] = begin + length;
  done_[key] = begin + length;
  if (setting_.options.record != Record::All || length == 0) return;
  timeline_.add(device, SpanKind::Transfer, begin, begin + length, instruction);
  timeline_.trace.spans.back().peer = device;
}

bool Moves::blocks(int device, const Instruction& instruction, double time) {
  if (instruction.op != Op::Wait || !schedule::is_move(instruction)) return false;
  const auto posted = done_.find(key_of(device, instruction));
  if (posted == done_.end() || posted->second <= time) return false;
  timeline_.wake(device, posted->second);
  return true;
}

}  // namespace cleave::plan::simulation
