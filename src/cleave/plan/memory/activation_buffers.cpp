#include "cleave/plan/memory/activation_buffers.h"

#include <algorithm>

#include "cleave/base/disk_blocks.h"

namespace cleave::plan {

using schedule::BufferKind;
using schedule::Direction;
using schedule::Op;
using schedule::Program;
using schedule::SegmentRead;

namespace {

class ActivationBuffers {
 public:
  ActivationBuffers(const Program& program, const schedule::Topology& topology,
                    std::span<const StageMemory> memory, const ListMarks& marks, BufferList& list)
      : program_(program), topology_(topology), memory_(memory), marks_(marks), list_(list) {}

  void add(StageId stage, MicrobatchId m) {
    if (!topology_.present(stage, topology_.of_replica(DeviceId{list_.device()}, m))) return;
    for (int piece = 0; piece < marks_.pieces(stage); ++piece) {
      add_kept(stage, m, piece);
      add_passed(stage, m, piece);
    }
    add_ends(stage, m);
    for (const int e : topology_.incoming[stage]) add_incoming(e, m);
    for (const int e : topology_.outgoing[stage]) add_outgoing(e, m);
  }

 private:
  void add_kept(StageId stage, MicrobatchId m, int piece) {
    const SegmentMemory bytes = memory_of(stage, piece);
    const PieceMarks& at = marks_.piece(stage, m, piece);
    if (at.forward == kNowhere) return;
    const auto keep = [&](BufferKind kind, std::int64_t size, int first, int last) {
      list_.add({.kind = kind,
                 .stage = stage,
                 .microbatch = m,
                 .segment = marks_.pieces(stage) > 1 ? piece : -1,
                 .bytes = size,
                 .first = first,
                 .last = last});
    };
    const bool again = at.recompute != kNowhere;
    if (bytes.keeps_inputs_only && !again) return;
    const bool dropped = bytes.keeps_inputs_only || memory_[stage].segments.empty();
    const int written = again && dropped ? at.recompute : at.forward;
    if (again) {
      keep(BufferKind::KeptForRecompute, bytes.kept_for_recompute, at.forward, at.recompute);
      keep(BufferKind::Recomputed, bytes.recomputed, at.recompute, at.end_of(Op::BackwardWeight));
    }
    const schedule::GradientKind kind = gradients_of(program_, stage);
    const std::int64_t for_input = kind == schedule::GradientKind::None ? 0 : bytes.kept_for_input;
    const std::int64_t for_weight = makes_weight_gradient(kind) ? bytes.kept_for_weight : 0;
    if (at.out == kNowhere) {
      keep(BufferKind::KeptForInput, for_input, written, at.end_of(Op::BackwardInput));
      keep(BufferKind::KeptForWeight, for_weight, written, at.end_of(Op::BackwardWeight));
    } else {
      keep(BufferKind::KeptForInput, for_input, written, at.out_done);
      keep(BufferKind::KeptForWeight, for_weight, written, at.out_done);
      keep(BufferKind::Outside, disk_blocks(for_input) + disk_blocks(for_weight), at.out,
           at.in_done);
      keep(BufferKind::ReturnedForInput, for_input, at.in, at.end_of(Op::BackwardInput));
      keep(BufferKind::ReturnedForWeight, for_weight, at.in, at.end_of(Op::BackwardWeight));
    }
    if (at.input == kNowhere || at.weight == kNowhere) return;
    const bool fused = at.input == at.weight;
    keep(BufferKind::InputKept, fused ? bytes.backward_work : bytes.input_kept, at.input,
         at.end_of(Op::BackwardWeight));
  }

  // A segment's own numbers, or its equal share of the stage's.
  SegmentMemory memory_of(StageId stage, int piece) const {
    const StageMemory& whole = memory_[stage];
    if (!whole.segments.empty()) return whole.segments[piece];
    const auto share = [&](std::int64_t bytes) {
      return (bytes + marks_.pieces(stage) - 1) / marks_.pieces(stage);
    };
    return {.kept_for_input = share(whole.kept_for_input),
            .kept_for_weight = share(whole.kept_for_weight),
            .input_kept = share(whole.input_kept),
            .backward_work = share(whole.backward_work),
            .kept_for_recompute = share(whole.kept_for_recompute)};
  }

  // What one segment hands to the next, and the gradient that comes back.
  void add_passed(StageId stage, MicrobatchId m, int piece) {
    if (memory_[stage].segments.empty()) return;
    const SegmentMemory& bytes = memory_[stage].segments[piece];
    const PieceMarks& at = marks_.piece(stage, m, piece);
    const auto pass = [&](BufferKind kind, std::int64_t size, int first, int last) {
      list_.add({.kind = kind,
                 .stage = stage,
                 .microbatch = m,
                 .segment = piece,
                 .bytes = size,
                 .first = first,
                 .last = last});
    };
    if (piece > 0) {
      const int made = marks_.piece(stage, m, piece - 1).forward;
      int last = made;
      for (const SegmentRead& read : reads_inside(program_, stage, SegmentId{piece - 1}))
        last = std::max(last, end_of_read(read, m));
      pass(BufferKind::SegmentInput, bytes.x, made, last);
    }
    if (piece + 1 < marks_.pieces(stage) && at.input != kNowhere) {
      int first = at.input;
      for (const SegmentRead& read : reads_inside(program_, stage, SegmentId{piece}))
        first = std::min(first, piece_at(read, m).input);
      pass(BufferKind::SegmentGradient, bytes.dy, first, at.end_of(bytes.dy_until));
    }
  }

  // Lists that do not tell segments apart have one piece.
  const PieceMarks& piece_at(StageId stage, MicrobatchId m, SegmentId segment) const {
    return marks_.piece(stage, m, std::min<int>(segment, marks_.pieces(stage) - 1));
  }
  const PieceMarks& piece_at(const SegmentRead& read, MicrobatchId m) const {
    return piece_at(StageId{read.stage}, m, SegmentId{read.segment});
  }

  // R reads it once more. In a chain it is the reader's x.
  int end_of_read(const SegmentRead& read, MicrobatchId m) const {
    const bool chain = program_.reads.empty();
    const Op until = chain ? memory_[read.stage].segments[read.segment].x_until : read.until;
    const PieceMarks& at = piece_at(read, m);
    return std::max(at.end_of(until), at.recompute);
  }

  // R reads the stage's x once more. Where segments are told apart, only the first one reads it
  // backward.
  int end_of_x(StageId stage, MicrobatchId m) const {
    const StageMemory& bytes = memory_[stage];
    const PieceMarks& first = marks_.piece(stage, m, 0);
    const int read = bytes.segments.empty() ? marks_.end_of(bytes.input_until, stage, m)
                                            : first.end_of(bytes.input_until);
    return std::max({read, marks_.end_of_forward(stage, m), first.recompute});
  }

  // An edge may bring what later segments read as well.
  int end_of_arrived(int e, MicrobatchId m) const {
    const StageId stage{program_.edges[e].to};
    if (program_.reads.empty() || memory_[stage].segments.empty()) return end_of_x(stage, m);
    int last = marks_.end_of_forward(stage, m);
    for (const SegmentRead& read : reads_of_edge(program_, e))
      last = std::max(last, end_of_read(read, m));
    return last;
  }

  // Where the first of an edge's readers to run backward begins to write its gradient.
  int begin_of_gradient(int e, MicrobatchId m) const {
    int first = marks_.end_of_input(StageId{program_.edges[e].to}, m);
    for (const SegmentRead& read : reads_of_edge(program_, e))
      first = std::min(first, piece_at(read, m).input);
    return first;
  }

  int end_of_gradient(int e, MicrobatchId m) const {
    const StageId stage{program_.edges[e].from};
    const StageMemory& bytes = memory_[stage];
    if (bytes.segments.empty()) return marks_.end_of(bytes.gradient_until, stage, m);
    const SegmentId maker{maker_of(program_, e)};
    const Op until = program_.reads.empty() ? bytes.gradient_until : bytes.segments[maker].dy_until;
    return std::max(piece_at(stage, m, maker).end_of(until), marks_.end_of_input(stage, m));
  }

  // x and y of a stage that no edge carries.
  void add_ends(StageId stage, MicrobatchId m) {
    const StageMemory& bytes = memory_[stage];
    const int first = marks_.begin_of_forward(stage, m);
    if (first == kNowhere) return;
    list_.add({.kind = BufferKind::Arriving,
               .stage = stage,
               .microbatch = m,
               .bytes = bytes.loaded,
               .first = first,
               .last = end_of_x(stage, m)});
    list_.add({.kind = BufferKind::Leaving,
               .stage = stage,
               .microbatch = m,
               .bytes = bytes.result,
               .first = marks_.end_of_forward(stage, m),
               .last = marks_.end_of(bytes.output_until, stage, m)});
  }

  bool is_local(const schedule::Edge& edge) const {
    const int replica = topology_.replica[list_.device()];
    return program_.placement[edge.from][replica] == program_.placement[edge.to][replica];
  }

  bool carries(int e, Direction direction, MicrobatchId m) const {
    return topology_.carries(e, direction, topology_.of_replica(DeviceId{list_.device()}, m));
  }

  void add_message(BufferKind kind, int e, Direction direction, MicrobatchId m, int first,
                   int last) {
    const schedule::Edge& edge = program_.edges[e];
    list_.add({.kind = kind,
               .edge = e,
               .direction = direction,
               .microbatch = m,
               .bytes = direction == Direction::Forward ? edge.forward_bytes : edge.backward_bytes,
               .first = first,
               .last = last});
  }

  // At the stage that an edge leads to: the activation arrives, its gradient leaves.
  void add_incoming(int e, MicrobatchId m) {
    const schedule::Edge& edge = program_.edges[e];
    const StageId stage{edge.to};
    if (marks_.begin_of_forward(stage, m) == kNowhere || !carries(e, Direction::Forward, m)) return;
    const MessageMarks& x = marks_.message(e, Direction::Forward, m);
    int first = x.posted == kNowhere ? marks_.begin_of_forward(stage, m) : x.posted;
    int last = end_of_arrived(e, m);
    if (is_local(edge)) {
      const StageId from{edge.from};
      first = piece_at(from, m, SegmentId{maker_of(program_, e)}).forward;
      last = std::max(last, marks_.end_of(memory_[from].output_until, from, m));
    }
    add_message(BufferKind::Arriving, e, Direction::Forward, m, first, last);

    const int written = begin_of_gradient(e, m);
    if (is_local(edge) || !carries(e, Direction::Backward, m) || written == kNowhere) return;
    const int sent = marks_.message(e, Direction::Backward, m).completed;
    add_message(BufferKind::Leaving, e, Direction::Backward, m, written,
                std::max(marks_.end_of_input(stage, m), sent));
  }

  // At the stage that an edge comes from: the activation leaves, its gradient arrives.
  void add_outgoing(int e, MicrobatchId m) {
    const schedule::Edge& edge = program_.edges[e];
    const StageId stage{edge.from};
    const int written = piece_at(stage, m, SegmentId{maker_of(program_, e)}).forward;
    if (written == kNowhere || !carries(e, Direction::Forward, m)) return;
    if (!is_local(edge)) {
      const int sent = marks_.message(e, Direction::Forward, m).completed;
      add_message(BufferKind::Leaving, e, Direction::Forward, m, written,
                  std::max(sent, marks_.end_of(memory_[stage].output_until, stage, m)));
    }
    const int read = end_of_gradient(e, m);
    if (!carries(e, Direction::Backward, m) || marks_.end_of_input(stage, m) == kNowhere) return;
    const MessageMarks& dy = marks_.message(e, Direction::Backward, m);
    const int first = is_local(edge)          ? begin_of_gradient(e, m)
                      : dy.posted == kNowhere ? marks_.begin_of_input(stage, m)
                                              : dy.posted;
    add_message(BufferKind::Arriving, e, Direction::Backward, m, first, read);
  }

  const Program& program_;
  const schedule::Topology& topology_;
  std::span<const StageMemory> memory_;
  const ListMarks& marks_;
  BufferList& list_;
};

}  // namespace

void add_activations(const Program& program, const schedule::Topology& topology,
                     std::span<const StageMemory> memory, const ListMarks& marks,
                     BufferList& list) {
  ActivationBuffers buffers(program, topology, memory, marks, list);
  for (const int stage : topology.stages[list.device()])
    for (MicrobatchId m{0}; m < topology.microbatches(list.device()); ++m)
      buffers.add(StageId{stage}, m);
}

}  // namespace cleave::plan
