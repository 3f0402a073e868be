#include "schedule/oracle/machine.h"

#include <algorithm>

// The compute instructions. What they may name is in machine_operands.cpp; messages, collectives
// and the optimizer are in machine_exchange.cpp, memory in machine_memory.cpp.

namespace cleave::schedule::oracle {
Machine::Machine(const Layout& layout, Messages messages) : layout_(&layout), messages_(messages) {
  const Program& p = layout.program;
  max_segments_ = *std::ranges::max_element(p.segments);
  demand(max_segments_ < 31, "more segments than the oracle is made for");
  at_.assign(p.devices, 0);
  begun_.assign(p.devices, 0);
  joined_.assign(p.devices, 0);
  normed_.assign(p.devices, 0);
  stepped_.assign(p.devices, 0);
  updated_.assign(p.devices * p.stages, 0);
  units_.resize(p.stages * p.replicas * p.microbatches);
  mail_.resize(p.edges.size() * 2 * p.replicas * p.microbatches);
  gradients_.resize(p.stages * p.replicas * max_segments_);
  for (Gradient& g : gradients_) g.contributions.assign(p.replicas * p.microbatches, 0);
  tied_.resize(p.ties.size() * p.replicas);
  gathered_.assign(p.devices * p.stages, 0);
  coming_.assign(p.devices * p.stages, 0);
  refreshed_.assign(p.devices * p.stages, 0);
  collected_.assign(p.devices * p.stages, 0);
  postings_.resize(p.stages * p.replicas);
  memory_.resize(p.buffers.size());
  alive_.resize(p.devices);
  shares_.resize(p.devices);
  next_buffer_.assign(p.devices, 0);
}

Machine::Outcome Machine::step(int d) {
  const auto& list = layout_->program.lists[d];
  if (at_[d] == static_cast<int>(list.size())) return Outcome::Done;
  if (joined_[d]) return Outcome::Blocked;
  const Instruction& i = list[at_[d]];
  if (!begun_[d]) {
    check_operands(d, i);
    begin_instruction(d);
  }
  if (i.op != Op::Tie && i.op != Op::Norm) {
    if (!execute(d, i)) return Outcome::Blocked;
    end_instruction(d);
    return Outcome::Ran;
  }
  collective(d, i);
  return Outcome::Ran;
}

bool Machine::all_done() const {
  for (int d = 0; d < layout_->program.devices; ++d)
    if (at_[d] < static_cast<int>(layout_->program.lists[d].size())) return false;
  return true;
}

std::vector<std::int16_t> Machine::place() const {
  std::vector<std::int16_t> place = at_;
  for (const char joined : joined_) place.push_back(joined);
  return place;
}

void Machine::finish() const {
  const Program& p = layout_->program;
  for (int s = 0; s < p.stages; ++s)
    for (int r = 0; r < p.replicas; ++r)
      for (int m = 0; m < p.microbatches; ++m) {
        const Unit& u = unit_of(s, r * p.microbatches + m);
        const bool there = layout_->present(s, r, m);
        demand(u.forward == (there ? all(s) : 0), "F left undone");
        demand(!there || !layout_->runs_input(s) || u.input == all(s), "I left undone");
        demand(!there || !layout_->runs_weight(s) || u.weight == all(s), "W left undone");
      }
  if (messages_ == Messages::Implied) return;
  for (const Mail& m : mail_)
    demand(m.sent == m.send_done && m.received == m.receive_done, "a message nobody waited for");
  for (int d = 0; d < p.devices; ++d)
    for (const int s : layout_->stages(d)) {
      demand(updated_[d * p.stages + s] == all(s) || !layout_->runs_weight(s),
             "weights not updated");
      demand(refreshed_[d * p.stages + s] == (layout_->refreshed(s) ? 2 : 0), "old weights");
    }
  for (const auto& [what, ran] : moves_) demand(ran == 4, "something that did not come back");
  for (const auto& posted : postings_)
    for (const Posting& posting : posted) demand(posting.done, "a collective nobody waited for");
  for (const Mask gathered : gathered_) demand(gathered == 0, "parameters never freed");
}

bool Machine::whole(int d, int stage, int segment) const {
  if (!layout_->sharded(stage) || messages_ == Messages::Implied) return true;
  const std::size_t at = d * layout_->program.stages + stage;
  return gathered_[at] & ~coming_[at] & (kWhole | bit(segment));
}

std::vector<int> Machine::pieces(const Instruction& i) const {
  if (i.segment >= 0) return {i.segment};
  std::vector<int> all_of_them;
  for (int k = 0; k < layout_->program.segments[i.stage]; ++k) all_of_them.push_back(k);
  return all_of_them;
}

Machine::Unit& Machine::unit(int d, int stage, int microbatch) {
  return const_cast<Unit&>(static_cast<const Machine*>(this)->unit(d, stage, microbatch));
}

const Machine::Unit& Machine::unit(int d, int stage, int microbatch) const {
  return unit_of(stage, layout_->cell(d, microbatch));
}

const Machine::Unit& Machine::unit_of(int stage, int cell) const {
  const Program& p = layout_->program;
  return units_[stage * p.replicas * p.microbatches + cell];
}

Machine::Mail& Machine::mail(int d, const Instruction& i) {
  const Program& p = layout_->program;
  const int way = i.direction == Direction::Forward ? 0 : 1;
  return mail_[(i.edge * 2 + way) * p.replicas * p.microbatches + layout_->cell(d, i.microbatch)];
}

Machine::Gradient& Machine::gradient(int replica, int stage, int segment) {
  return gradients_[(replica * layout_->program.stages + stage) * max_segments_ + segment];
}

const Machine::Gradient& Machine::gradient(int replica, int stage, int segment) const {
  return gradients_[(replica * layout_->program.stages + stage) * max_segments_ + segment];
}

bool Machine::execute(int d, const Instruction& i) {
  switch (i.op) {
    case Op::Forward:
      return forward(d, i);
    case Op::BackwardInput:
      return backward_input(d, i);
    case Op::BackwardWeight:
      // Where nothing flows further back, it works on dy itself.
      if (!layout_->runs_input(i.stage) && !backward_input(d, i)) return false;
      for (const int k : pieces(i)) weight_piece(d, i, k);
      return true;
    case Op::Backward:
      if (!backward_input(d, i)) return false;
      for (const int k : pieces(i)) weight_piece(d, i, k);
      return true;
    case Op::Recompute:
      for (const int k : pieces(i)) recompute_piece(d, i, k);
      return true;
    case Op::Wait:
      return wait(d, i);
    case Op::Free:
      free_parameters(d, i);
      return true;
    case Op::Step:
      step_weights(d, i);
      return true;
    case Op::Out:
    case Op::In:
      if (i.edge >= 0)
        move_message(d, i);
      else if (is_state_move(i))
        run_state_move(d, i);
      else
        post_move(d, i);
      return true;
    case Op::Gather:
    case Op::Reduce:
    case Op::Refresh:
    case Op::Collect:
      post_collective(d, i);
      return true;
    default:
      post(d, i);
      return true;
  }
}

// What the stage reads has been made; on another device only if messages are implied, and then an
// absent one means waiting. A stage that F or I was told to run without its inputs is at fault.
bool Machine::inputs_there(int d, const Instruction& i, Direction direction) const {
  const Program& p = layout_->program;
  const int cell = layout_->cell(d, i.microbatch);
  const bool forward = direction == Direction::Forward;
  for (int e = 0; e < static_cast<int>(p.edges.size()); ++e) {
    const Edge& edge = p.edges[e];
    if ((forward ? edge.to : edge.from) != i.stage || !layout_->flows(edge, forward, cell))
      continue;
    const int maker = forward ? edge.from : edge.to;
    const int where = p.placement[maker][layout_->replica_of_cell(cell)];
    const Unit& made = unit_of(maker, cell);
    const bool complete = (forward ? made.forward : made.input) == all(maker);
    if (where == d) {
      demand(complete, "reads what was not made");
    } else if (messages_ == Messages::Implied) {
      if (!complete) return false;
    } else {
      const Instruction message{
          .op = Op::Receive, .direction = direction, .microbatch = i.microbatch, .edge = e};
      demand(const_cast<Machine*>(this)->mail(d, message).receive_done, "reads what has not come");
    }
  }
  return true;
}

bool Machine::forward(int d, const Instruction& i) {
  if (!inputs_there(d, i, Direction::Forward)) return false;
  for (const int k : pieces(i)) forward_piece(d, i, k);
  return true;
}

void Machine::forward_piece(int d, const Instruction& i, int k) {
  Unit& u = unit(d, i.stage, i.microbatch);
  demand(u.forward == bit(k) - 1, "F twice or out of order");
  demand(whole(d, i.stage, k), "F without parameters");
  read_inputs(d, i, Direction::Forward);
  use_collected(d, i, k);
  keep(d, i, k, false);
  read(kept(d, BufferKind::SegmentInput, i, k), 1);
  write(kept(d, BufferKind::SegmentInput, i, k + 1), 1);
  u.forward |= bit(k);
  if (u.forward == all(i.stage)) write_outputs(d, i, Direction::Forward);
}

void Machine::recompute_piece(int d, const Instruction& i, int k) {
  Unit& u = unit(d, i.stage, i.microbatch);
  demand(u.forward & bit(k), "R before F");
  demand(!(u.recompute & bit(k)), "R twice");
  demand(!(u.input & bit(k)), "R after I");
  demand(whole(d, i.stage, k), "R without parameters");
  if (k == 0) read_inputs(d, i, Direction::Forward);
  for (const int level : {-1, k})
    if (layout_->recomputed(d, i.stage, level, i.microbatch)) {
      read(kept(d, BufferKind::KeptForRecompute, i, level), bit(k));
      write(kept(d, BufferKind::Recomputed, i, level), bit(k));
    }
  keep(d, i, k, true);
  read(kept(d, BufferKind::SegmentInput, i, k), 1);
  u.recompute |= bit(k);
}

bool Machine::backward_input(int d, const Instruction& i) {
  if (!inputs_there(d, i, Direction::Backward)) return false;
  std::vector<int> order = pieces(i);
  std::ranges::reverse(order);
  for (const int k : order) input_piece(d, i, k);
  return true;
}

void Machine::input_piece(int d, const Instruction& i, int k) {
  Unit& u = unit(d, i.stage, i.microbatch);
  demand(u.forward == all(i.stage), "I before F");
  demand((u.input | bit(k)) == (all(i.stage) & ~(bit(k) - 1)) && !(u.input & bit(k)),
         "I twice or out of order");
  demand(whole(d, i.stage, k), "I without parameters");
  read_inputs(d, i, Direction::Backward);
  use_collected(d, i, k);
  for (const int level : {-1, k}) {
    read_kept(d, i, level, k, BufferKind::KeptForInput);
    write(kept(d, BufferKind::InputKept, i, level), bit(k));
  }
  read(kept(d, BufferKind::SegmentGradient, i, k), 1);
  if (k > 0) write(kept(d, BufferKind::SegmentGradient, i, k - 1), 1);
  u.input |= bit(k);
  if (u.input == all(i.stage)) write_outputs(d, i, Direction::Backward);
}

void Machine::weight_piece(int d, const Instruction& i, int k) {
  Unit& u = unit(d, i.stage, i.microbatch);
  const int cell = layout_->cell(d, i.microbatch);
  Gradient& g = gradient(layout_->replica(d), i.stage, k);
  demand(u.input & bit(k), "W before I");
  demand(g.reduced == 0, "W after REDUCE");
  // Of its own replica everything before it is in the sum, and it is not.
  const int row = layout_->replica_of_cell(cell) * layout_->program.microbatches;
  for (int before = row; before < cell; ++before)
    demand(g.contributions[before] == layout_->present_in(i.stage, before),
           "W out of microbatch order");
  demand(g.contributions[cell] == 0, "W twice");
  for (const int level : {-1, k}) {
    read_kept(d, i, level, k, BufferKind::KeptForWeight);
    read(kept(d, BufferKind::InputKept, i, level), bit(k));
    touch(kept(d, BufferKind::Sums, i, level));
    if (layout_->recomputed(d, i.stage, level, i.microbatch))
      read(kept(d, BufferKind::Recomputed, i, level), bit(k));
  }
  ++g.contributions[cell];
  u.weight |= bit(k);
}

}  // namespace cleave::schedule::oracle
