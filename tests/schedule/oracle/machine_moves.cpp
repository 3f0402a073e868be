#include "schedule/oracle/machine.h"

// What F has kept leaves the device's memory and comes back. Each of OUT, its WAIT, IN and its WAIT
// comes once, in this order, between F and the first backward pass.

namespace cleave::schedule::oracle {
namespace {

constexpr BufferKind kKept[] = {BufferKind::KeptForInput, BufferKind::KeptForWeight};
constexpr BufferKind kReturned[] = {BufferKind::ReturnedForInput, BufferKind::ReturnedForWeight};

}  // namespace

// The buffer of exactly what the instruction names, or -1.
int Machine::moved(int d, BufferKind kind, const Instruction& i) const {
  return layout_->kept(d, kind, i.stage, i.segment, i.microbatch);
}

void Machine::check_moved_bytes(int d, const Instruction& i) const {
  const auto& buffers = layout_->program.buffers;
  std::int64_t all_bytes = 0;
  for (int k = 0; k < 2; ++k) {
    const int before = moved(d, kKept[k], i);
    const int after = moved(d, kReturned[k], i);
    demand((before < 0) == (after < 0), "comes back without having left, or does not");
    if (before < 0) continue;
    demand(buffers[before].bytes == buffers[after].bytes, "comes back in another size");
    all_bytes += (buffers[before].bytes + 63) / 64 * 64;
  }
  const int outside = moved(d, BufferKind::Outside, i);
  demand(all_bytes == 0 || (outside >= 0 && buffers[outside].bytes >= all_bytes),
         "no room outside");
}

void Machine::post_move(int d, const Instruction& i) {
  const Mask part = i.segment < 0 ? all(i.stage) : bit(i.segment);
  int& ran = moves_[{d, i.stage, i.segment, i.microbatch}];
  const int outside = moved(d, BufferKind::Outside, i);
  if (i.op == Op::Out) {
    demand(ran++ == 0, "OUT again");
    demand(layout_->made_as_named(d, i.stage, i.segment, i.microbatch), "moves what has no name");
    demand((unit(d, i.stage, i.microbatch).forward & part) == part, "moves what is not made");
    demand(!layout_->has(d, Op::Recompute, i.stage, i.segment, i.microbatch), "R makes it again");
    check_moved_bytes(d, i);
    for (const BufferKind kind : kKept) read(kept(d, kind, i, i.segment), part);
    touch(outside);
    if (outside >= 0) memory_[outside].in_flight = true;
    return;
  }
  demand(ran++ == 2, "IN of what is not outside");
  read(outside, 1);
  for (const BufferKind kind : kReturned) {
    const int buffer = moved(d, kind, i);
    touch(buffer);
    if (buffer >= 0) memory_[buffer].in_flight = true;
  }
}

void Machine::wait_move(int d, const Instruction& i) {
  const Mask part = i.segment < 0 ? all(i.stage) : bit(i.segment);
  int& ran = moves_[{d, i.stage, i.segment, i.microbatch}];
  const int outside = moved(d, BufferKind::Outside, i);
  if (i.completes == Op::Out) {
    demand(ran++ == 1, "WAIT for no OUT");
    for (const BufferKind kind : kKept) read(kept(d, kind, i, i.segment), part);
    if (outside >= 0) memory_[outside].in_flight = false;
    write(outside, 1);
    return;
  }
  demand(ran++ == 3, "WAIT for no IN");
  demand(!(unit(d, i.stage, i.microbatch).input & part), "comes back too late");
  read(outside, 1);
  for (const BufferKind kind : kReturned) {
    const int buffer = moved(d, kind, i);
    if (buffer >= 0) memory_[buffer].in_flight = false;
    write(buffer, part);
  }
}

// I and W find what moved in the buffers that it came back to.
void Machine::read_kept(int d, const Instruction& i, int level, int segment, BufferKind kind) {
  if (messages_ == Messages::Implied || !layout_->moves(d, i.stage, level, i.microbatch))
    return read(kept(d, kind, i, level), bit(segment));
  const auto found = moves_.find({d, i.stage, level, i.microbatch});
  demand(found != moves_.end() && found->second == 4, "reads what has not come back");
  const bool for_input = kind == BufferKind::KeptForInput;
  Instruction named = i;
  named.segment = level;
  read(moved(d, for_input ? kReturned[0] : kReturned[1], named), bit(segment));
}

}  // namespace cleave::schedule::oracle
