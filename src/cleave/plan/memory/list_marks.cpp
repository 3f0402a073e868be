#include "cleave/plan/memory/list_marks.h"

#include <algorithm>

#include "cleave/schedule/effects.h"

namespace cleave::plan {

using schedule::Instruction;
using schedule::Op;

ListMarks::ListMarks(const schedule::Program& program, const schedule::Topology& topology,
                     int device)
    : microbatches_(topology.microbatches(device)),
      pieces_(program.stages, 1),
      first_piece_(program.stages, 0),
      local_edge_(program.edges.size(), 0) {
  const std::vector<Instruction>& list = program.lists[device];
  for (const Instruction& i : list)
    if (schedule::is_compute(i.op) && i.segment >= 0) pieces_[i.stage] = program.segments[i.stage];
  int pieces = 0;
  int edges = 0;
  for (const int stage : topology.stages[device]) {
    first_piece_[stage] = pieces;
    pieces += pieces_[stage];
    for (const int e : topology.incoming[stage]) local_edge_[e] = edges++;
    for (const int e : topology.outgoing[stage]) local_edge_[e] = edges++;
  }
  marks_.resize(static_cast<std::size_t>(pieces) * microbatches_);
  messages_.resize(static_cast<std::size_t>(edges) * 2 * microbatches_);
  for (int at = 0; at < static_cast<int>(list.size()); ++at) note(topology, list[at], at);
}

int ListMarks::end_of(Op pass, StageId stage, MicrobatchId m) const {
  int end = kNowhere;
  for (int p = 0; p < pieces_[stage]; ++p) end = std::max(end, piece(stage, m, p).end_of(pass));
  return end;
}

void ListMarks::note(const schedule::Topology& topology, const Instruction& i, int at) {
  const MicrobatchId microbatch{i.microbatch};
  if (i.op == Op::Receive) messages_[slot(i.edge, i.direction, microbatch)].posted = at;
  if (i.op == Op::Wait && i.completes == Op::Send)
    messages_[slot(i.edge, i.direction, microbatch)].completed = at;
  if (schedule::is_state_move(i)) return;  // of no microbatch
  if (!schedule::is_compute(i.op) && !schedule::is_move(i)) return;
  const Op op = topology.acts_as(i);
  const int first = std::max(0, i.segment);
  const int last = i.segment < 0 ? pieces_[i.stage] - 1 : i.segment;
  for (int p = first; p <= last; ++p) {
    PieceMarks& m =
        marks_[static_cast<std::size_t>(first_piece_[i.stage] + p) * microbatches_ + i.microbatch];
    if (schedule::is_move(i)) {
      const bool out = schedule::subject(i) == Op::Out;
      (i.op == Op::Wait ? (out ? m.out_done : m.in_done) : (out ? m.out : m.in)) = at;
      continue;
    }
    if (op == Op::Forward) m.forward = at;
    if (op == Op::Recompute) m.recompute = at;
    if (reads(op, schedule::Thing::OutputGradient)) m.input = at;
    if (writes(op, schedule::Thing::Gradients)) m.weight = at;
  }
}

}  // namespace cleave::plan
