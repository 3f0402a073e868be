#include "cleave/plan/memory/device_buffers.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "cleave/base/disk_blocks.h"
#include "cleave/plan/memory/activation_buffers.h"
#include "cleave/schedule/effects.h"

namespace cleave::plan {

using schedule::Buffer;
using schedule::BufferKind;
using schedule::Instruction;
using schedule::Op;
using schedule::Program;

namespace {

class DeviceBuffers {
 public:
  DeviceBuffers(const Program& program, const schedule::Topology& topology,
                std::span<const StageMemory> memory, int device, Shares shares)
      : program_(program),
        topology_(topology),
        memory_(memory),
        instructions_(program.lists[device]),
        shares_(shares),
        marks_(program, topology, device),
        list_(program, device) {}

  std::vector<Buffer> collect() && {
    std::int64_t scratch = 0;
    for (const int stage : topology_.stages[list_.device()]) {
      add_static(stage);
      scratch = std::max(scratch, memory_[stage].scratch);
    }
    list_.add_lasting({.kind = BufferKind::Scratch, .bytes = scratch});
    add_activations(program_, topology_, memory_, marks_, list_);
    add_gathered();
    add_gradients();
    add_collected();
    add_state();
    if (passes_through_host(program_, list_.device())) {
      add_messages_on_host();
      add_exchanges_on_host();
    }
    return std::move(list_).take();
  }

 private:
  void add_static(int stage) {
    const StageMemory& bytes = memory_[stage];
    const auto has_sums = [](const SegmentMemory& segment) { return segment.sums > 0; };
    const bool apart = shares_ == Shares::Apart && std::ranges::any_of(bytes.segments, has_sums);
    list_.add_lasting({.kind = BufferKind::Weights, .stage = stage, .bytes = bytes.weights});
    list_.add_lasting(
        {.kind = BufferKind::Gradients, .stage = stage, .bytes = apart ? 0 : bytes.gradients});
    const bool moves = std::ranges::any_of(instructions_, [&](const Instruction& i) {
      return schedule::is_state_move(i) && i.stage == stage;
    });
    list_.add_lasting(
        {.kind = BufferKind::Optimizer, .stage = stage, .bytes = moves ? 0 : bytes.optimizer});
  }

  // What a segment's optimizer state takes, or that of a whole stage.
  std::int64_t state_bytes(const Instruction& move) const {
    const StageMemory& stage = memory_[move.stage];
    if (move.segment < 0) return stage.optimizer;
    if (!stage.segments.empty()) return stage.segments[move.segment].state;
    const int segments = program_.segments[move.stage];
    return (stage.optimizer + segments - 1) / segments;
  }

  // Both are whole blocks of a disk, wherever the state is in fact: one copy moves all of it. One
  // block more lets it begin on a border of its memory too.
  void add_state() {
    std::map<std::pair<int, int>, int> fetched;  // stage and segment -> its IN
    for (int at = 0; at < static_cast<int>(instructions_.size()); ++at) {
      const Instruction& i = instructions_[at];
      if (!schedule::is_state_move(i)) continue;
      if (i.op == Op::In) fetched[{i.stage, i.segment}] = at;
      if (i.op != Op::Wait || i.completes != Op::Out) continue;
      const std::int64_t state = disk_blocks(state_bytes(i));
      Buffer buffer{.kind = BufferKind::FetchedState,
                    .stage = i.stage,
                    .segment = i.segment,
                    .bytes = state > 0 ? state + kDiskBlock : 0,
                    .first = fetched[{i.stage, i.segment}],
                    .last = at};
      list_.add(buffer);
      buffer.kind = BufferKind::StoredState;
      buffer.bytes = state;
      list_.add_lasting(buffer);
    }
  }

  // From OUT to the WAIT of its SEND, and from RECV to its WAIT, which completes IN as well.
  void add_messages_on_host() {
    using Message = std::tuple<int, schedule::Direction, int>;
    std::map<Message, int> posted;
    for (int at = 0; at < static_cast<int>(instructions_.size()); ++at) {
      const Instruction& i = instructions_[at];
      const Message message(i.edge, i.direction, i.microbatch);
      if (i.op == Op::Receive || (i.op == Op::Out && is_message_move(i))) posted[message] = at;
      if (i.op != Op::Wait || !is_message(i)) continue;
      const schedule::Edge& edge = program_.edges[i.edge];
      const bool forward = i.direction == schedule::Direction::Forward;
      list_.add(
          {.kind = i.completes == Op::Send ? BufferKind::LeavingOnHost : BufferKind::ArrivingOnHost,
           .edge = i.edge,
           .direction = i.direction,
           .microbatch = i.microbatch,
           .bytes = forward ? edge.forward_bytes : edge.backward_bytes,
           .first = posted[message],
           .last = at});
    }
  }

  std::int64_t exchanged_bytes(const Instruction& wait) const {
    const std::vector<SegmentMemory>& segments = memory_[wait.stage].segments;
    if (segments.empty()) return 0;
    const SegmentMemory& own = segments[std::max(wait.segment, 0)];
    if (wait.completes == Op::Reduce) return own.reducing_on_host;
    if (wait.completes == Op::Gather) return own.gathering_on_host;
    if (wait.completes == Op::Collect) return own.collecting_on_host;
    std::int64_t bytes = 0;  // REFRESH is of all segments
    for (const SegmentMemory& segment : segments) bytes += segment.refreshing_on_host;
    return bytes;
  }

  // From the post of a collective to its WAIT; what happens inside an instruction has scratch.
  void add_exchanges_on_host() {
    std::int64_t scratch = 0;
    for (const int stage : topology_.stages[list_.device()])
      scratch = std::max(scratch, memory_[stage].scratch_on_host);
    list_.add_lasting({.kind = BufferKind::ScratchOnHost, .bytes = scratch});
    std::map<std::tuple<Op, int, int>, int> posted;
    for (int at = 0; at < static_cast<int>(instructions_.size()); ++at) {
      const Instruction& i = instructions_[at];
      if (schedule::is_posted_collective(i.op)) posted[{i.op, i.stage, i.segment}] = at;
      if (i.op != Op::Wait || !schedule::is_posted_collective(i.completes)) continue;
      list_.add({.kind = schedule::on_host_of(i.completes),
                 .stage = i.stage,
                 .segment = i.segment,
                 .bytes = exchanged_bytes(i),
                 .first = posted[{i.completes, i.stage, i.segment}],
                 .last = at});
    }
  }

  void add_gathered() {
    std::vector<Buffer> open;
    for (int at = 0; at < static_cast<int>(instructions_.size()); ++at) {
      const Instruction& i = instructions_[at];
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
                        .last = list_.end()});
      } else if (i.op == Op::Free) {
        const auto gathered = std::ranges::find_if(
            open, [&](const Buffer& b) { return b.stage == i.stage && b.segment == i.segment; });
        if (gathered == open.end()) continue;
        gathered->last = at;
        list_.add(*gathered);
        open.erase(gathered);
      }
    }
    for (const Buffer& never_freed : open) list_.add(never_freed);
  }

  // Read by F and I of the segment that collects, of every microbatch.
  void add_collected() {
    for (int at = 0; at < static_cast<int>(instructions_.size()); ++at) {
      const Instruction& i = instructions_[at];
      if (i.op != Op::Collect || memory_[i.stage].segments.empty()) continue;
      const int segment = std::max(i.segment, 0);
      int last = at;
      for (MicrobatchId m{0}; m < topology_.microbatches(list_.device()); ++m)
        last = std::max(last, marks_.piece(StageId{i.stage}, m, segment).end_of(Op::BackwardInput));
      list_.add({.kind = BufferKind::Collected,
                 .stage = i.stage,
                 .segment = i.segment,
                 .bytes = memory_[i.stage].segments[segment].collected,
                 .first = at,
                 .last = last});
    }
  }

  // The first W of what the REDUCE at a position sums up; itself if there is none.
  int first_weight(const Instruction& reduce, int at) const {
    const DeviceId device{list_.device()};
    const StageId stage{reduce.stage};
    int first = at;
    for (MicrobatchId m{0}; m < topology_.microbatches(device); ++m) {
      if (!topology_.present(stage, topology_.of_replica(device, m))) continue;
      for (int piece = 0; piece < marks_.pieces(stage); ++piece)
        if (reduce.segment < 0 || piece == reduce.segment)
          first = std::min(first, marks_.piece(stage, m, piece).weight);
    }
    return first;
  }

  // A REDUCE goes on while other segments compute, until its WAIT.
  void add_gradients() {
    std::map<std::pair<int, int>, int> waits;  // stage and segment -> where the sum is waited for
    for (int at = static_cast<int>(instructions_.size()) - 1; at >= 0; --at) {
      const Instruction& i = instructions_[at];
      if (i.op == Op::Wait && i.completes == Op::Reduce) waits[{i.stage, i.segment}] = at;
      if (i.op != Op::Reduce || memory_[i.stage].segments.empty()) continue;
      const auto wait = waits.find({i.stage, i.segment});
      const int end = wait == waits.end() ? list_.end() : wait->second;
      const SegmentMemory& bytes = memory_[i.stage].segments[std::max(i.segment, 0)];
      const bool apart = bytes.sums > 0 && shares_ == Shares::Apart;
      const auto add = [&](BufferKind kind, std::int64_t size, int first, int last) {
        list_.add({.kind = kind,
                   .stage = i.stage,
                   .segment = i.segment,
                   .bytes = size,
                   .first = first,
                   .last = last});
      };
      if (apart) {
        add(BufferKind::Sums, bytes.sums, first_weight(i, at), end);
        add(BufferKind::Share, bytes.share, at, list_.end());
      }
      add(BufferKind::Reducing, bytes.reducing, at, end);
    }
  }

  const Program& program_;
  const schedule::Topology& topology_;
  std::span<const StageMemory> memory_;
  const std::vector<Instruction>& instructions_;
  Shares shares_;
  ListMarks marks_;
  BufferList list_;
};

}  // namespace

std::vector<Buffer> collect_buffers(const Program& program, const schedule::Topology& topology,
                                    std::span<const StageMemory> memory, int device,
                                    Shares shares) {
  return DeviceBuffers(program, topology, memory, device, shares).collect();
}

}  // namespace cleave::plan
