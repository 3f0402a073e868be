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
    all_bytes += (buffers[before].bytes + 4095) / 4096 * 4096;
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
  if (is_state_move(i)) return run_state_move(d, i);
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

// A segment, or all of a stage. What moves has come in, and has not left.
void Machine::step_stage(int d, int stage, int segment) {
  for (int k = 0; k < layout_->program.segments[stage]; ++k) {
    if (segment >= 0 && k != segment) continue;
    Mask& updated = updated_[d * layout_->program.stages + stage];
    demand(!(updated & bit(k)), "STEP again");
    updated |= bit(k);
    for (const int level : {-1, k})
      if (layout_->state_moves(d, stage, level))
        demand(moves_[{d, stage, level, -1}] == 2, "updates state that is not there");
  }
}

// IN, its WAIT, OUT and its WAIT come once, in this order, around STEP.
void Machine::run_state_move(int d, const Instruction& i) {
  const Op about = i.op == Op::Wait ? i.completes : i.op;
  const int turn = (about == Op::In ? 0 : 2) + (i.op == Op::Wait ? 1 : 0);
  demand(moves_[{d, i.stage, i.segment, -1}]++ == turn, "state moves out of turn");
  demand(i.segment < 0 || !layout_->state_moves(d, i.stage, -1), "state comes in twice");
  const Mask part = i.segment < 0 ? all(i.stage) : bit(i.segment);
  const Mask updated = updated_[d * layout_->program.stages + i.stage];
  demand(i.op != Op::Out || (updated & part) == part, "leaves before it is updated");
  const int fetched = layout_->kept(d, BufferKind::FetchedState, i.stage, i.segment, -1);
  const int stored = layout_->kept(d, BufferKind::StoredState, i.stage, i.segment, -1);
  demand((fetched < 0) == (stored < 0), "state without a place");
  touch(fetched);
  touch(stored);
  const auto& buffers = layout_->program.buffers;
  demand(fetched < 0 || buffers[fetched].bytes >= buffers[stored].bytes, "no room for state");
}

}  // namespace cleave::schedule::oracle
