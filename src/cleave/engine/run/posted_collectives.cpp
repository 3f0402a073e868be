#include "cleave/engine/run/posted_collectives.h"

#include <algorithm>
#include <vector>

namespace cleave::engine {

using schedule::Instruction;
using schedule::Op;

std::span<std::byte> PostedCollectives::on_host(const LinkedInstruction& entry) const {
  if (entry.on_host.bytes == 0) return {};
  return {parts_.host->at(entry.on_host.offset), static_cast<std::size_t>(entry.on_host.bytes)};
}

void PostedCollectives::start(const LinkedInstruction& entry) {
  const Instruction& i = entry.instruction;
  const StageId stage{i.stage};
  const SegmentId segment{std::max(i.segment, 0)};
  if (i.op == Op::Reduce)
    return parts_.sums->reduce(stage, segment, {entry.workspace, on_host(entry)});
  if (i.op == Op::Refresh) return parts_.values->refresh(stage, on_host(entry));
  if (i.op == Op::Gather)
    return parts_.values->gather(stage, segment, entry.workspace, on_host(entry));
  parts_.collections->collect(entry, *parts_.memory, on_host(entry));
}

void PostedCollectives::complete(Op op, const Instruction& named) {
  const StageId stage{named.stage};
  const SegmentId segment{std::max(named.segment, 0)};
  if (op == Op::Reduce) return parts_.sums->finish(stage, segment);
  if (op == Op::Gather) return parts_.values->finish(stage, segment);
  if (op == Op::Refresh) return parts_.values->finish(stage);
  parts_.collections->finish(stage);
}

void PostedCollectives::post(const LinkedInstruction& entry) {
  if (entry.on_host.bytes > 0) parts_.host->acquire(entry.on_host.offset, entry.on_host.bytes);
  start(entry);
}

void PostedCollectives::finish(const LinkedInstruction& wait) {
  complete(wait.instruction.completes, wait.instruction);
  if (wait.on_host.bytes > 0) parts_.host->release(wait.on_host.offset);
}

void PostedCollectives::carry_out(const LinkedInstruction& entry) {
  start(entry);
  complete(entry.instruction.op, entry.instruction);
}

void PostedCollectives::refresh_all(const LinkedProgram& program, int stages) {
  std::vector<std::span<std::byte>> rooms(static_cast<std::size_t>(stages));
  for (const LinkedInstruction& entry : program.instructions)
    if (entry.instruction.op == Op::Refresh)
      rooms[static_cast<std::size_t>(entry.instruction.stage)] = on_host(entry);
  for (int s = 0; s < stages; ++s) parts_.values->refresh(s, rooms[static_cast<std::size_t>(s)]);
  for (int s = 0; s < stages; ++s) parts_.values->finish(s);
}

}  // namespace cleave::engine
