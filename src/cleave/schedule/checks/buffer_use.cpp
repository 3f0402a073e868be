#include "cleave/schedule/checks/buffer_use.h"

#include <algorithm>
#include <span>

namespace cleave::schedule::checks {
namespace {

bool holds(const Tables& t, DeviceId device, StageId stage) {
  const int replica = t.topology.replica[device];
  return stage >= 0 && stage < t.program.stages && replica >= 0 &&
         t.program.placement[stage][replica] == device;
}

// Where the passes over a buffer's stage or segment stand.
class Passes {
 public:
  Passes(const Tables& tables, const Buffer& buffer)
      : t_(tables),
        segment_(buffer.segment),
        index_(t_.unit_index(buffer.stage, t_.topology.of_replica(buffer))),
        unit_(t_.units[index_]),
        all_again_(unit_.recompute_done == t_.segments[buffer.stage]) {}

  std::int32_t forward_first() const { return position(Op::Forward, unit_.forward.first); }
  std::int32_t forward_last() const { return position(Op::Forward, unit_.forward.last); }
  /// Where the segment before this one makes what this and later ones read.
  std::int32_t input_made() const {
    return position_of(segment_ - 1, Op::Forward, unit_.forward.first);
  }
  /// The last pass over a segment that reads it.
  std::int32_t last_read(const SegmentRead& read) const {
    std::int32_t last = position_of(read.segment, Op::Forward, unit_.forward.last);
    last = std::max(last, position_of(read.segment, Op::Recompute, -1));
    if (read.until != Op::Forward)
      last = std::max(last, position_of(read.segment, Op::BackwardInput, unit_.input.last));
    if (read.until == Op::BackwardWeight)
      last = std::max(last, position_of(read.segment, Op::BackwardWeight, unit_.weight.last));
    return last;
  }
  /// Where a segment makes its y.
  std::int32_t made_by(int segment) const {
    return position_of(segment, Op::Forward, unit_.forward.last);
  }
  /// Where a segment makes the gradient of what it reads.
  std::int32_t gradient_made(const SegmentRead& read) const {
    return position_of(read.segment, Op::BackwardInput, unit_.input.first);
  }
  std::int32_t input_first() const { return position(Op::BackwardInput, unit_.input.first); }
  std::int32_t input_last() const { return position(Op::BackwardInput, unit_.input.last); }
  std::int32_t weight_first() const { return position(Op::BackwardWeight, unit_.weight.first); }
  std::int32_t weight_last() const { return position(Op::BackwardWeight, unit_.weight.last); }

  /// -1: not all of it is recomputed.
  Span recompute() const {
    const std::int32_t named = position(Op::Recompute, -1);
    if (named >= 0) return {named, named};
    return all_again_ ? unit_.recompute : Span{};
  }

  const Move* move() const { return t_.move(index_, segment_); }

  bool apart() const {
    return segment_ < 0 ? unit_.input_and_weight_apart : input_last() != weight_last();
  }

 private:
  // Of a segment where instructions name it, of the whole stage otherwise.
  std::int32_t position_of(int segment, Op op, std::int32_t otherwise) const {
    const std::int32_t named = segment < 0 ? -1 : t_.piece_position(index_, segment, op);
    return named >= 0 ? named : otherwise;
  }
  std::int32_t position(Op op, std::int32_t otherwise) const {
    return position_of(segment_, op, otherwise);
  }

  const Tables& t_;
  int segment_;
  std::int64_t index_;
  const Unit& unit_;
  bool all_again_;
};

// A pass that the stage does not run needs nothing: what is made for it lives at its making.
Span until(std::int32_t made, std::int32_t last) {
  return {made, std::max(made, last)};
}

/// Of a segment, by those of its stage: by the next one where segments form a chain.
template <class Visit>
void each_read_inside(const Tables& t, StageId stage, SegmentId from, const Visit& visit) {
  if (t.program.reads.empty())
    return visit(SegmentRead{.stage = stage, .segment = from + 1, .from = from});
  for (const SegmentRead& read : t.reads.inside(stage, from)) visit(read);
}

Span use_of_kept(const Tables& t, const Buffer& b) {
  const Passes passes(t, b);
  const Span again = passes.recompute();
  // What a recompute brings back need not be kept before.
  const std::int32_t made = again.empty() ? passes.forward_first() : again.first;
  const bool reads_later =
      b.kind == BufferKind::KeptForInput || b.kind == BufferKind::KeptForWeight;
  if (const Move* move = passes.move(); move != nullptr && reads_later)
    return {made, move->out_wait};
  if (b.kind == BufferKind::KeptForInput) return until(made, passes.input_last());
  if (b.kind == BufferKind::KeptForWeight) return until(made, passes.weight_last());
  if (b.kind == BufferKind::Recomputed)
    return again.empty() ? Span{} : until(again.first, passes.weight_last());
  if (b.kind == BufferKind::InputKept) return until(passes.input_first(), passes.weight_last());
  if (b.kind == BufferKind::SegmentInput) {
    std::int32_t last = t.program.reads.empty() ? again.last : passes.input_made();
    each_read_inside(t, StageId{b.stage}, SegmentId{b.segment - 1}, [&](const SegmentRead& read) {
      last = std::max(last, passes.last_read(read));
    });
    return {passes.input_made(), last};
  }
  if (b.kind == BufferKind::SegmentGradient) {
    std::int32_t first = passes.input_last();
    each_read_inside(t, StageId{b.stage}, SegmentId{b.segment}, [&](const SegmentRead& read) {
      first = std::min(first, passes.gradient_made(read));
    });
    return {first, passes.input_last()};
  }
  return again.empty() ? Span{} : Span{passes.forward_first(), again.last};
}

Span use_of_moved(const Tables& t, const Buffer& b) {
  const Passes passes(t, b);
  const Move& move = *passes.move();
  if (b.kind == BufferKind::Outside) return {move.out, move.in_wait};
  return until(move.in, std::max(move.in_wait, b.kind == BufferKind::ReturnedForInput
                                                   ? passes.input_last()
                                                   : passes.weight_last()));
}

// Where the segments of a stage stand that have to do with the edge of a buffer.
Passes passes_of(const Tables& t, int stage, const Buffer& b) {
  return {t, {.device = b.device, .stage = stage, .microbatch = b.microbatch}};
}

// The last reader of a stage's activations: F, or the R that begins with them.
std::int32_t last_forward_read(const Tables& t, int stage, const OfReplica& of) {
  const std::int64_t index = t.unit_index(stage, of);
  const Unit& unit = t.units[index];
  std::int32_t again = t.piece_position(index, 0, Op::Recompute);
  if (again < 0 && unit.recompute_done == t.segments[stage]) again = unit.recompute.last;
  return std::max(unit.forward.last, again);
}

Span use_of_carried(const Tables& t, const Buffer& b) {
  const OfReplica of = t.topology.of_replica(b);
  const Edge& edge = t.program.edges[b.edge];
  const bool forward = b.direction == Direction::Forward;
  const int to = endpoint(edge, Op::Receive, b.direction);
  const int from = endpoint(edge, Op::Send, b.direction);
  const Unit& source = t.unit(from, of);
  std::int32_t made = forward ? source.forward.last : source.input.last;
  std::int32_t read = forward ? last_forward_read(t, to, of) : t.unit(to, of).input.last;
  if (!t.program.reads.empty()) {
    const Passes readers = passes_of(t, edge.to, b);
    if (forward) read = t.unit(to, of).forward.last;
    const std::span<const SegmentRead> of_edge = t.reads.of_edge(b.edge);
    for (const SegmentRead& at : of_edge) {
      if (forward) read = std::max(read, readers.last_read(at));
      if (!forward) made = std::min(made, readers.gradient_made(at));
    }
    if (forward) made = passes_of(t, from, b).made_by(of_edge.front().from);
  }
  if (!t.crosses(b.edge, of.replica)) return {made, read};
  const Message& m = t.message(b.edge, b.direction, of);
  if (b.kind == BufferKind::ArrivingOnHost) return {m.receive, m.receive_wait};
  if (b.kind == BufferKind::LeavingOnHost) return {m.send - 1, m.send_wait};  // from its OUT on
  return b.kind == BufferKind::Arriving ? Span{m.receive, read} : Span{made, m.send_wait};
}

Span use_of_stage_end(const Tables& t, const Buffer& b) {
  const OfReplica of = t.topology.of_replica(b);
  const Unit& unit = t.unit(b.stage, of);
  if (b.kind == BufferKind::Leaving) return {unit.forward.last, unit.forward.last};
  return {unit.forward.first, last_forward_read(t, b.stage, of)};
}

const StateMove* state_move_of(const Tables& t, const Buffer& b) {
  return t.state_move(DeviceId{b.device}, StageId{b.stage}, SegmentId{b.segment});
}

Span reduction_of(const Tables& t, const Buffer& b) {
  return t.reduction(StageId{b.stage}, t.topology.replica[b.device], SegmentId{b.segment});
}

// From the first W of any replica that the device stands for to the end of REDUCE.
Span use_of_sums(const Tables& t, const Buffer& b) {
  const Span reduction = reduction_of(t, b);
  const Span used =
      t.weights_of(StageId{b.stage}, t.topology.replica[b.device], SegmentId{b.segment});
  // Without a W the sum is zero from REDUCE on.
  if (used.empty()) return reduction;
  return {used.first, std::max(used.last, reduction.last)};
}

// From COLLECT to the last I, or F where there is none, of any microbatch.
Span use_of_collected(const Tables& t, const Buffer& b) {
  Span used;
  for (const Posting& posting : t.posted(StageId{b.stage}, t.topology.replica[b.device]))
    if (posting.op == Op::Collect) used.add(posting.post);
  if (used.empty()) return {};
  Buffer of_microbatch = b;
  for (int m = 0; m < t.topology.microbatches(b.device); ++m) {
    of_microbatch.microbatch = m;
    const Passes passes(t, of_microbatch);
    used.last = std::max({used.last, passes.forward_last(), passes.input_last()});
  }
  return used;
}

}  // namespace

bool belongs(const Tables& t, const Buffer& b) {
  const Program& p = t.program;
  if (b.device < 0 || b.device >= p.devices || b.kind > BufferKind::ScratchOnHost) return false;
  if (is_on_host(b) && !passes_through_host(p, b.device)) return false;
  if (is_scratch(b)) return true;
  const bool per_microbatch = is_kept(b) || is_moved(b) || is_carried(b) || is_stage_end(b);
  if (per_microbatch && (b.microbatch < 0 || b.microbatch >= t.topology.microbatches(b.device)))
    return false;
  const OfReplica of = t.topology.of_replica(b);
  if (per_microbatch && b.edge < 0 && b.stage >= 0 && b.stage < p.stages &&
      !t.topology.present(b.stage, of))
    return false;
  if (!is_carried(b)) {
    const int first = b.kind == BufferKind::SegmentInput      ? 1
                      : b.kind == BufferKind::SegmentGradient ? 0
                                                              : -1;
    const int behind = b.kind == BufferKind::SegmentGradient ? 1 : 0;
    const bool there = holds(t, DeviceId{b.device}, StageId{b.stage}) && b.segment >= first &&
                       b.segment + behind < p.segments[b.stage];
    return there && (!is_moved(b) || Passes(t, b).move() != nullptr) &&
           (!is_state(b) || state_move_of(t, b) != nullptr) &&
           (b.kind != BufferKind::Collected ||
            (collects(p, b.stage) && b.segment == collecting_segment(p, b.stage)));
  }
  if (b.edge < 0 || b.edge >= std::ssize(p.edges)) return false;
  const Edge& edge = p.edges[b.edge];
  if (!t.topology.carries(b.edge, b.direction, of)) return false;
  const bool arriving = b.kind == BufferKind::Arriving || b.kind == BufferKind::ArrivingOnHost;
  const StageId end{endpoint(edge, arriving ? Op::Receive : Op::Send, b.direction)};
  if (!holds(t, DeviceId{b.device}, end)) return false;
  return b.kind == BufferKind::Arriving || t.crosses(b.edge, of.replica);
}

Span use_of(const Tables& t, const Buffer& b) {
  if (is_kept(b)) return use_of_kept(t, b);
  if (is_moved(b)) return use_of_moved(t, b);
  if (is_carried(b)) return use_of_carried(t, b);
  if (is_stage_end(b)) return use_of_stage_end(t, b);
  if (is_one_of_several(b)) return {};
  if (b.kind == BufferKind::Sums) return use_of_sums(t, b);
  if (b.kind == BufferKind::Collected) return use_of_collected(t, b);
  const auto size = static_cast<std::int32_t>(t.program.lists[b.device].size());
  const std::int32_t end = std::max(size - 1, 0);
  if (is_static(b) || b.kind == BufferKind::StoredState) return {0, end};
  if (b.kind == BufferKind::FetchedState) {
    const StateMove& move = *state_move_of(t, b);
    return {move.in, move.out_wait};
  }
  const Span reduction = reduction_of(t, b);
  const bool lasts = b.kind == BufferKind::Share && !reduction.empty();
  return lasts ? Span{reduction.first, end} : reduction;
}

Sort sort_of(const Tables& t, const Buffer& b) {
  if (b.kind == BufferKind::Sums) return Sort::Plain;
  if (is_of_gradients(b)) return use_of(t, b).empty() ? Sort::Exempt : Sort::Plain;
  if (b.kind == BufferKind::InputKept) return Passes(t, b).apart() ? Sort::Apart : Sort::Plain;
  const bool of_recompute =
      b.kind == BufferKind::KeptForRecompute || b.kind == BufferKind::Recomputed;
  if (of_recompute && Passes(t, b).recompute().empty()) return Sort::Exempt;
  return Sort::Plain;
}

}  // namespace cleave::schedule::checks
