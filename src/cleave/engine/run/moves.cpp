#include "cleave/engine/run/moves.h"

namespace cleave::engine {

using schedule::Op;

namespace {

Mover::Way way_of(const LinkedInstruction& entry) {
  return entry.instruction.op == Op::Out ? Mover::Way::Out : Mover::Way::In;
}

}  // namespace

Moves::Moves(const LinkedProgram& linked, Memory& memory, Arena* outside) : outside_(outside) {
  if (linked.moves == 0) return;
  const auto moves = static_cast<std::size_t>(linked.moves);
  moving_.resize(moves);
  resting_ = linked.resting;
  mover_ = std::make_unique<Mover>(memory, outside_->memory(), 2 * moves);
  outside_->reserve_blocks(moves);
}

void Moves::begin_step() {
  if (mover_ == nullptr) return;
  mover_->drain();
  outside_->release_all();
  for (const Block& block : resting_) outside_->acquire(block.offset, block.bytes);
}

void Moves::post(const LinkedInstruction& entry) {
  if (entry.instruction.op == Op::Out && !schedule::is_state_move(entry.instruction))
    outside_->acquire(entry.outside.offset, entry.outside.bytes);
  moving_[entry.slot] = mover_->post(way_of(entry), entry.copies);
}

Mover::Times Moves::carry_out(const LinkedInstruction& entry) {
  return mover_->wait(mover_->post(way_of(entry), entry.copies));
}

Mover::Times Moves::finish(const LinkedInstruction& wait) {
  const Mover::Times times = mover_->wait(moving_[wait.slot]);
  if (wait.instruction.completes == Op::In && wait.outside.bytes > 0 &&
      !schedule::is_state_move(wait.instruction))
    outside_->release(wait.outside.offset);
  return times;
}

}  // namespace cleave::engine
