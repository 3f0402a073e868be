#include "schedule/oracle/machine.h"

// What an instruction may name at all, before anything runs.

namespace cleave::schedule::oracle {

void Machine::check_operands(int d, const Instruction& i) const {
  const Program& p = layout_->program;
  demand(messages_ == Messages::Explicit || is_compute(i.op), "not compute");
  const auto microbatch_exists = [&] {
    return 0 <= i.microbatch && i.microbatch < layout_->cells(d);
  };
  if (i.op == Op::Norm || (i.op == Op::Step && i.stage < 0)) return;
  if (i.op == Op::Tie) {
    demand(0 <= i.edge && i.edge < static_cast<int>(p.ties.size()), "no such tie");
    demand(layout_->holds(d, p.ties[i.edge].first) || layout_->holds(d, p.ties[i.edge].second),
           "a tie of others");
    return;
  }
  const Op about = i.op == Op::Wait ? i.completes : i.op;
  if (i.op == Op::Wait)
    demand(about == Op::Send || about == Op::Receive || about == Op::Gather ||
               about == Op::Reduce || about == Op::Refresh || about == Op::Collect ||
               about == Op::Out || about == Op::In,
           "WAIT what?");
  const bool moves_message = i.edge >= 0 && (about == Op::Out || about == Op::In);
  demand(!moves_message || i.op != Op::Wait, "a message completes its own move");
  if (about == Op::Send || about == Op::Receive || moves_message) {
    demand(0 <= i.edge && i.edge < static_cast<int>(p.edges.size()), "no such edge");
    demand(microbatch_exists(), "no such microbatch");
    const Edge& e = p.edges[i.edge];
    const bool sends = about == Op::Send || about == Op::Out;
    const bool forward = i.direction == Direction::Forward;
    demand(layout_->flows(e, forward, layout_->cell(d, i.microbatch)), "nothing flows");
    demand(layout_->holds(d, sends == forward ? e.from : e.to), "a message of others");
    demand(!layout_->same_device(e, layout_->replica(d)), "a message to oneself");
    return;
  }
  demand(0 <= i.stage && i.stage < p.stages && layout_->holds(d, i.stage), "no such stage here");
  demand(-1 <= i.segment && i.segment < p.segments[i.stage], "no such segment");
  demand((!is_compute(i.op) && !is_move(i)) || is_state_move(i) || microbatch_exists(),
         "no such microbatch");
  check_stage_operands(d, i);
}

void Machine::check_stage_operands(int d, const Instruction& i) const {
  const Op about = i.op == Op::Wait ? i.completes : i.op;
  const bool input = layout_->runs_input(i.stage);
  const bool weight = layout_->runs_weight(i.stage);
  if (i.op == Op::Step || is_state_move(i)) return demand(weight, "nothing to update");
  if (is_move(i)) demand(input || weight, "nobody reads what moves");
  if (is_compute(i.op) || is_move(i))
    demand(layout_->present_in(i.stage, layout_->cell(d, i.microbatch)), "absent");
  if (i.op == Op::BackwardInput || i.op == Op::Backward) demand(input, "I of no use");
  if (i.op == Op::BackwardWeight || i.op == Op::Backward) demand(weight, "W of no use");
  if (i.op == Op::Recompute) demand(input || weight, "R of no use");
  if (about == Op::Reduce) demand(weight, "nothing to reduce");
  if (about == Op::Collect)
    demand(layout_->collects(i.stage) && i.segment == layout_->collected_segment(i.stage),
           "nothing to collect");
  if (about == Op::Gather || about == Op::Free)
    demand(layout_->sharded(i.stage), "nothing to gather");
  if (about == Op::Refresh)
    demand(layout_->refreshed(i.stage) && i.segment < 0, "nothing to refresh");
}

}  // namespace cleave::schedule::oracle
