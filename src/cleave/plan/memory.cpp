#include "cleave/plan/memory.h"

#include <algorithm>

#include "cleave/base/check.h"
#include "cleave/base/units.h"
#include "cleave/plan/interval_packing.h"

namespace cleave::plan {

using schedule::Buffer;
using schedule::BufferKind;
using schedule::Direction;
using schedule::Instruction;
using schedule::Op;
using schedule::Program;

namespace {

constexpr int kNowhere = -1;

// Where the passes of one piece (a stage, or one of its segments) of one microbatch stand in the
// list of their device.
struct Marks {
  int forward = kNowhere;
  int recompute = kNowhere;
  int input = kNowhere;
  int weight = kNowhere;

  // A tensor that waits for a pass which never comes dies with the pass before it.
  int end_of(Op pass) const {
    if (pass == Op::BackwardWeight && weight != kNowhere) return weight;
    if (pass != Op::Forward && input != kNowhere) return input;
    return forward;
  }
};

struct MessageMarks {
  int posted = kNowhere;     // RECV
  int completed = kNowhere;  // WAIT of the SEND
};

// Everything that lives on one device.
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
        pieces_(program.stages, 1),
        first_piece_(program.stages, 0),
        local_edge_(program.edges.size(), 0) {
    number_pieces_and_edges();
    for (int at = 0; at < static_cast<int>(list_.size()); ++at) note(list_[at], at);
  }

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
        for (int piece = 0; piece < pieces_[stage]; ++piece) add_kept(stage, m, piece);
        add_ends(stage, m);
        for (const int e : topology_.incoming[stage]) add_incoming(e, m);
        for (const int e : topology_.outgoing[stage]) add_outgoing(e, m);
      }
    add_gathered();
    return std::move(buffers_);
  }

 private:
  void number_pieces_and_edges() {
    for (const Instruction& i : list_)
      if (schedule::is_compute(i.op) && i.segment >= 0)
        pieces_[i.stage] = program_.segments[i.stage];
    int pieces = 0;
    int edges = 0;
    for (const int stage : topology_.stages[device_]) {
      first_piece_[stage] = pieces;
      pieces += pieces_[stage];
      for (const int e : topology_.incoming[stage]) local_edge_[e] = edges++;
      for (const int e : topology_.outgoing[stage]) local_edge_[e] = edges++;
    }
    marks_.resize(static_cast<std::size_t>(pieces) * program_.microbatches);
    messages_.resize(static_cast<std::size_t>(edges) * 2 * program_.microbatches);
  }

  Marks& marks(int stage, int microbatch, int piece) {
    return marks_[static_cast<std::size_t>(first_piece_[stage] + piece) * program_.microbatches +
                  microbatch];
  }

  MessageMarks& message(int edge, Direction direction, int microbatch) {
    const int way = direction == Direction::Forward ? 0 : 1;
    return messages_[static_cast<std::size_t>(local_edge_[edge] * 2 + way) * program_.microbatches +
                     microbatch];
  }

  void note(const Instruction& i, int at) {
    if (i.op == Op::Receive) message(i.edge, i.direction, i.microbatch).posted = at;
    if (i.op == Op::Wait && i.completes == Op::Send)
      message(i.edge, i.direction, i.microbatch).completed = at;
    if (!schedule::is_compute(i.op)) return;
    const int first = std::max(0, i.segment);
    const int last = i.segment < 0 ? pieces_[i.stage] - 1 : i.segment;
    for (int piece = first; piece <= last; ++piece) {
      Marks& m = marks(i.stage, i.microbatch, piece);
      if (i.op == Op::Forward) m.forward = at;
      if (i.op == Op::Recompute) m.recompute = at;
      if (i.op == Op::BackwardInput || i.op == Op::Backward) m.input = at;
      if (i.op == Op::BackwardWeight || i.op == Op::Backward) m.weight = at;
    }
  }

  // The whole stage: from the first of its pieces to the last.
  int begin_of_forward(int stage, int m) { return marks(stage, m, 0).forward; }
  int end_of_forward(int stage, int m) { return marks(stage, m, pieces_[stage] - 1).forward; }
  int begin_of_input(int stage, int m) { return marks(stage, m, pieces_[stage] - 1).input; }
  int end_of_input(int stage, int m) { return marks(stage, m, 0).input; }
  int end_of(Op pass, int stage, int m) {
    int end = kNowhere;
    for (int piece = 0; piece < pieces_[stage]; ++piece)
      end = std::max(end, marks(stage, m, piece).end_of(pass));
    return end;
  }

  // R reads the stage's x once more.
  int end_of_x(int stage, int m) {
    return std::max(end_of(memory_[stage].input_until, stage, m), marks(stage, m, 0).recompute);
  }

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
    const StageMemory& bytes = memory_[stage];
    const Marks& at = marks(stage, m, piece);
    if (at.forward == kNowhere) return;
    const auto keep = [&](BufferKind kind, std::int64_t size, int first, int last) {
      add({.kind = kind,
           .stage = stage,
           .microbatch = m,
           .segment = pieces_[stage] > 1 ? piece : -1,
           .bytes = share(size, stage),
           .first = first,
           .last = last});
    };
    const int written = at.recompute == kNowhere ? at.forward : at.recompute;
    if (at.recompute != kNowhere)
      keep(BufferKind::KeptForRecompute, bytes.kept_for_recompute, at.forward, at.recompute);
    keep(BufferKind::KeptForInput, bytes.kept_for_input, written, at.end_of(Op::BackwardInput));
    keep(BufferKind::KeptForWeight, bytes.kept_for_weight, written, at.end_of(Op::BackwardWeight));
    if (at.input == kNowhere) return;
    const bool fused = at.input == at.weight;
    keep(BufferKind::InputKept, fused ? bytes.backward_work : bytes.input_kept, at.input,
         at.end_of(Op::BackwardWeight));
  }

  std::int64_t share(std::int64_t bytes, int stage) const {
    return (bytes + pieces_[stage] - 1) / pieces_[stage];
  }

  // x and y of a stage that no edge carries.
  void add_ends(int stage, int m) {
    const StageMemory& bytes = memory_[stage];
    const int first = begin_of_forward(stage, m);
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
         .first = end_of_forward(stage, m),
         .last = end_of(bytes.output_until, stage, m)});
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
    if (begin_of_forward(stage, m) == kNowhere) return;
    const MessageMarks& x = message(e, Direction::Forward, m);
    int first = x.posted == kNowhere ? begin_of_forward(stage, m) : x.posted;
    int last = end_of_x(stage, m);
    if (is_local(edge)) {
      first = end_of_forward(edge.from, m);
      last = std::max(last, end_of(memory_[edge.from].output_until, edge.from, m));
    }
    add_message(BufferKind::Arriving, e, Direction::Forward, m, first, last);

    const int written = end_of_input(stage, m);
    if (is_local(edge) || !edge.backward || written == kNowhere) return;
    const int sent = message(e, Direction::Backward, m).completed;
    add_message(BufferKind::Leaving, e, Direction::Backward, m, written, std::max(written, sent));
  }

  // At the stage that an edge comes from: the activation leaves, its gradient arrives.
  void add_outgoing(int e, int m) {
    const schedule::Edge& edge = program_.edges[e];
    const int stage = edge.from;
    const int written = end_of_forward(stage, m);
    if (written == kNowhere) return;
    if (!is_local(edge)) {
      const int sent = message(e, Direction::Forward, m).completed;
      add_message(BufferKind::Leaving, e, Direction::Forward, m, written,
                  std::max(sent, end_of(memory_[stage].output_until, stage, m)));
    }
    const int read = end_of(memory_[stage].gradient_until, stage, m);
    if (!edge.backward || end_of_input(stage, m) == kNowhere) return;
    const MessageMarks& dy = message(e, Direction::Backward, m);
    const int first = is_local(edge)          ? end_of_input(edge.to, m)
                      : dy.posted == kNowhere ? begin_of_input(stage, m)
                                              : dy.posted;
    add_message(BufferKind::Arriving, e, Direction::Backward, m, first, read);
  }

  void add_gathered() {
    std::vector<Buffer> open;
    for (int at = 0; at < static_cast<int>(list_.size()); ++at) {
      const Instruction& i = list_[at];
      if (i.op == Op::Gather) {
        const int segments = i.segment < 0 ? 1 : program_.segments[i.stage];
        open.push_back({.kind = BufferKind::Gathered,
                        .stage = i.stage,
                        .segment = i.segment,
                        .bytes = (memory_[i.stage].gathered + segments - 1) / segments,
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

  const Program& program_;
  const schedule::Topology& topology_;
  std::span<const StageMemory> memory_;
  const std::vector<Instruction>& list_;
  int device_;
  int end_;
  std::vector<int> pieces_;       // [stage] -> 1, or its segments where the list splits it
  std::vector<int> first_piece_;  // [stage]
  std::vector<int> local_edge_;   // [edge] -> counted among those of this device
  std::vector<Marks> marks_;
  std::vector<MessageMarks> messages_;
  std::vector<Buffer> buffers_;
};

// Pairs of buffers that the search for offsets may look at, all devices together: about a second.
constexpr std::int64_t kEffort = 200'000'000;

// Static buffers one behind the other, then everything else above them.
void place(std::span<Buffer> buffers, std::int64_t effort) {
  std::int64_t bottom = 0;
  std::vector<Interval> intervals;
  std::vector<Buffer*> moving;
  for (Buffer& b : buffers) {
    const bool whole_step = b.kind <= BufferKind::Optimizer || b.kind == BufferKind::Scratch;
    if (whole_step) {
      b.offset = bottom;
      bottom += aligned(b.bytes);
    } else {
      intervals.push_back({b.first, b.last, b.bytes});
      moving.push_back(&b);
    }
  }
  const Packing packing = pack_intervals(intervals, effort);
  for (std::size_t i = 0; i < moving.size(); ++i) moving[i]->offset = bottom + packing.offsets[i];
}

}  // namespace

void plan_memory(Program& program, std::span<const StageMemory> stages) {
  CLEAVE_CHECK(std::ssize(stages) == program.stages, stages.size(), " stages have sizes, ",
               program.stages, " are in the program");
  const schedule::Topology topology(program);
  program.buffers.clear();
  for (int d = 0; d < program.devices; ++d) {
    std::vector<Buffer> buffers = DeviceBuffers(program, topology, stages, d).collect();
    place(buffers, kEffort / program.devices);
    program.buffers.insert(program.buffers.end(), buffers.begin(), buffers.end());
  }
}

std::vector<std::int64_t> peak_bytes(const Program& program) {
  std::vector<std::int64_t> peaks(program.devices, 0);
  for (const Buffer& b : program.buffers)
    peaks[b.device] = std::max(peaks[b.device], b.offset + aligned(b.bytes));
  return peaks;
}

}  // namespace cleave::plan
