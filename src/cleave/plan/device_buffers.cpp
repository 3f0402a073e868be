#include "cleave/plan/device_buffers.h"

#include <algorithm>
#include <utility>

#include "cleave/base/check.h"
#include "cleave/plan/list_marks.h"

namespace cleave::plan {

using schedule::Buffer;
using schedule::BufferKind;
using schedule::Direction;
using schedule::Instruction;
using schedule::Op;
using schedule::Program;

namespace {

class DeviceBuffers {
 public:
  DeviceBuffers(const Program& program, const schedule::Topology& topology,
                std::span<const StageMemory> memory, int device)
      : program_(program),
        topology_(topology),
        memory_(memory),
        list_(program.lists[device]),
        device_(device),
        end_(std::max<int>(0, static_cast<int>(list_.size()) - 1)),
        marks_(program, topology, device) {}

  std::vector<Buffer> collect() && {
    const std::vector<int>& stages = topology_.stages[device_];
    std::int64_t scratch = 0;
    for (const int stage : stages) {
      add_static(stage);
      scratch = std::max(scratch, memory_[stage].scratch);
    }
    add({.kind = BufferKind::Scratch, .bytes = scratch, .first = 0, .last = end_});
    for (const int stage : stages)
      for (int m = 0; m < program_.microbatches; ++m) {
        for (int piece = 0; piece < marks_.pieces(stage); ++piece) {
          add_kept(stage, m, piece);
          add_passed(stage, m, piece);
        }
        add_ends(stage, m);
        for (const int e : topology_.incoming[stage]) add_incoming(e, m);
        for (const int e : topology_.outgoing[stage]) add_outgoing(e, m);
      }
    add_gathered();
    add_reducing();
    return std::move(buffers_);
  }

 private:
  void add(Buffer buffer) {
    if (buffer.bytes == 0) return;
    CLEAVE_CHECK(0 <= buffer.first && buffer.first <= buffer.last && buffer.last <= end_, "device ",
                 device_, " stage ", buffer.stage, " edge ", buffer.edge, " microbatch ",
                 buffer.microbatch, " lives from ", buffer.first, " to ", buffer.last);
    buffer.device = device_;
    buffers_.push_back(buffer);
  }

  void add_static(int stage) {
    const StageMemory& bytes = memory_[stage];
    const auto whole_step = [&](BufferKind kind, std::int64_t size) {
      add({.kind = kind, .stage = stage, .bytes = size, .first = 0, .last = end_});
    };
    whole_step(BufferKind::Weights, bytes.weights);
    whole_step(BufferKind::Gradients, bytes.gradients);
    whole_step(BufferKind::Optimizer, bytes.optimizer);
  }

  void add_kept(int stage, int m, int piece) {
    const SegmentMemory bytes = memory_of(stage, piece);
    const PieceMarks& at = marks_.piece(stage, m, piece);
    if (at.forward == kNowhere) return;
    const auto keep = [&](BufferKind kind, std::int64_t size, int first, int last) {
      add({.kind = kind,
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
    keep(BufferKind::KeptForInput, bytes.kept_for_input, written, at.end_of(Op::BackwardInput));
    keep(BufferKind::KeptForWeight, bytes.kept_for_weight, written, at.end_of(Op::BackwardWeight));
    if (at.input == kNowhere) return;
    const bool fused = at.input == at.weight;
    keep(BufferKind::InputKept, fused ? bytes.backward_work : bytes.input_kept, at.input,
         at.end_of(Op::BackwardWeight));
  }

  // A segment's own numbers, or its equal share of the stage's.
  SegmentMemory memory_of(int stage, int piece) const {
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
  void add_passed(int stage, int m, int piece) {
    if (memory_[stage].segments.empty()) return;
    const SegmentMemory& bytes = memory_[stage].segments[piece];
    const PieceMarks& at = marks_.piece(stage, m, piece);
    const auto pass = [&](BufferKind kind, std::int64_t size, int first, int last) {
      add({.kind = kind,
           .stage = stage,
           .microbatch = m,
           .segment = piece,
           .bytes = size,
           .first = first,
           .last = last});
    };
    if (piece > 0)
      pass(BufferKind::SegmentInput, bytes.x, marks_.piece(stage, m, piece - 1).forward,
           std::max(at.end_of(bytes.x_until), at.recompute));
    if (piece + 1 < marks_.pieces(stage) && at.input != kNowhere)
      pass(BufferKind::SegmentGradient, bytes.dy, marks_.piece(stage, m, piece + 1).input,
           at.end_of(bytes.dy_until));
  }

  // R reads the stage's x once more. Where segments are told apart, only the first one reads it
  // backward.
  int end_of_x(int stage, int m) const {
    const StageMemory& bytes = memory_[stage];
    const PieceMarks& first = marks_.piece(stage, m, 0);
    const int read = bytes.segments.empty() ? marks_.end_of(bytes.input_until, stage, m)
                                            : first.end_of(bytes.input_until);
    return std::max({read, marks_.end_of_forward(stage, m), first.recompute});
  }

  int end_of_gradient(int stage, int m) const {
    const StageMemory& bytes = memory_[stage];
    if (bytes.segments.empty()) return marks_.end_of(bytes.gradient_until, stage, m);
    const PieceMarks& last = marks_.piece(stage, m, marks_.pieces(stage) - 1);
    return std::max(last.end_of(bytes.gradient_until), marks_.end_of_input(stage, m));
  }

  // x and y of a stage that no edge carries.
  void add_ends(int stage, int m) {
    const StageMemory& bytes = memory_[stage];
    const int first = marks_.begin_of_forward(stage, m);
    if (first == kNowhere) return;
    add({.kind = BufferKind::Arriving,
         .stage = stage,
         .microbatch = m,
         .bytes = bytes.loaded,
         .first = first,
         .last = end_of_x(stage, m)});
    add({.kind = BufferKind::Leaving,
         .stage = stage,
         .microbatch = m,
         .bytes = bytes.result,
         .first = marks_.end_of_forward(stage, m),
         .last = marks_.end_of(bytes.output_until, stage, m)});
  }

  bool is_local(const schedule::Edge& edge) const {
    const int replica = topology_.replica[device_];
    return program_.placement[edge.from][replica] == program_.placement[edge.to][replica];
  }

  void add_message(BufferKind kind, int e, Direction direction, int m, int first, int last) {
    const schedule::Edge& edge = program_.edges[e];
    add({.kind = kind,
         .edge = e,
         .direction = direction,
         .microbatch = m,
         .bytes = direction == Direction::Forward ? edge.forward_bytes : edge.backward_bytes,
         .first = first,
         .last = last});
  }

  // At the stage that an edge leads to: the activation arrives, its gradient leaves.
  void add_incoming(int e, int m) {
    const schedule::Edge& edge = program_.edges[e];
    const int stage = edge.to;
    if (marks_.begin_of_forward(stage, m) == kNowhere) return;
    const MessageMarks& x = marks_.message(e, Direction::Forward, m);
    int first = x.posted == kNowhere ? marks_.begin_of_forward(stage, m) : x.posted;
    int last = end_of_x(stage, m);
    if (is_local(edge)) {
      first = marks_.end_of_forward(edge.from, m);
      last = std::max(last, marks_.end_of(memory_[edge.from].output_until, edge.from, m));
    }
    add_message(BufferKind::Arriving, e, Direction::Forward, m, first, last);

    const int written = marks_.end_of_input(stage, m);
    if (is_local(edge) || !edge.backward || written == kNowhere) return;
    const int sent = marks_.message(e, Direction::Backward, m).completed;
    add_message(BufferKind::Leaving, e, Direction::Backward, m, written, std::max(written, sent));
  }

  // At the stage that an edge comes from: the activation leaves, its gradient arrives.
  void add_outgoing(int e, int m) {
    const schedule::Edge& edge = program_.edges[e];
    const int stage = edge.from;
    const int written = marks_.end_of_forward(stage, m);
    if (written == kNowhere) return;
    if (!is_local(edge)) {
      const int sent = marks_.message(e, Direction::Forward, m).completed;
      add_message(BufferKind::Leaving, e, Direction::Forward, m, written,
                  std::max(sent, marks_.end_of(memory_[stage].output_until, stage, m)));
    }
    const int read = end_of_gradient(stage, m);
    if (!edge.backward || marks_.end_of_input(stage, m) == kNowhere) return;
    const MessageMarks& dy = marks_.message(e, Direction::Backward, m);
    const int first = is_local(edge)          ? marks_.end_of_input(edge.to, m)
                      : dy.posted == kNowhere ? marks_.begin_of_input(stage, m)
                                              : dy.posted;
    add_message(BufferKind::Arriving, e, Direction::Backward, m, first, read);
  }

  void add_gathered() {
    std::vector<Buffer> open;
    for (int at = 0; at < static_cast<int>(list_.size()); ++at) {
      const Instruction& i = list_[at];
      if (i.op == Op::Gather) {
        const StageMemory& whole = memory_[i.stage];
        const int segments = i.segment < 0 ? 1 : program_.segments[i.stage];
        open.push_back({.kind = BufferKind::Gathered,
                        .stage = i.stage,
                        .segment = i.segment,
                        .bytes = whole.segments.empty()
                                     ? (whole.gathered + segments - 1) / segments
                                     : whole.segments[std::max(i.segment, 0)].gathered,
                        .first = at,
                        .last = end_});
      } else if (i.op == Op::Free) {
        const auto gathered = std::ranges::find_if(
            open, [&](const Buffer& b) { return b.stage == i.stage && b.segment == i.segment; });
        if (gathered == open.end()) continue;
        gathered->last = at;
        add(*gathered);
        open.erase(gathered);
      }
    }
    for (const Buffer& never_freed : open) add(never_freed);
  }

  // The first W of what a REDUCE sums up.
  int first_weight(const Instruction& reduce) const {
    if (reduce.segment >= 0) return marks_.piece(reduce.stage, 0, reduce.segment).weight;
    int first = end_;
    for (int piece = 0; piece < marks_.pieces(reduce.stage); ++piece)
      first = std::min(first, marks_.piece(reduce.stage, 0, piece).weight);
    return first;
  }

  // A REDUCE goes on while other segments compute, until its sum is needed; where whole gradients
  // are in the way, only until the next one.
  void add_reducing() {
    int needed = end_;
    int next = end_;
    for (int at = static_cast<int>(list_.size()) - 1; at >= 0; --at) {
      const Instruction& i = list_[at];
      if (i.op == Op::Tie || i.op == Op::Norm) needed = next = at;
      if (i.op != Op::Reduce || memory_[i.stage].segments.empty()) continue;
      const int piece = std::max(i.segment, 0);
      const SegmentMemory& bytes = memory_[i.stage].segments[piece];
      Buffer buffer{.kind = BufferKind::Sums,
                    .stage = i.stage,
                    .segment = i.segment,
                    .bytes = bytes.sums,
                    .first = first_weight(i),
                    .last = next};
      add(buffer);
      buffer.kind = BufferKind::Reducing;
      buffer.bytes = bytes.reducing;
      buffer.first = at;
      buffer.last = bytes.sums > 0 ? next : needed;
      add(buffer);
      next = at;
    }
  }

  const Program& program_;
  const schedule::Topology& topology_;
  std::span<const StageMemory> memory_;
  const std::vector<Instruction>& list_;
  int device_;
  int end_;
  ListMarks marks_;
  std::vector<Buffer> buffers_;
};

}  // namespace

std::vector<Buffer> collect_buffers(const Program& program, const schedule::Topology& topology,
                                    std::span<const StageMemory> memory, int device) {
  return DeviceBuffers(program, topology, memory, device).collect();
}

}  // namespace cleave::plan
