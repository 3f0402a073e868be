#include "cleave/engine/run/linked_program.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "cleave/base/check.h"

namespace cleave::engine {
namespace {

using plan::Region;
using schedule::Buffer;
using schedule::BufferKind;
using schedule::Direction;
using schedule::Instruction;
using schedule::Op;

bool is_lasting(BufferKind kind) {
  return kind == BufferKind::Weights || kind == BufferKind::Gradients ||
         kind == BufferKind::Optimizer || kind == BufferKind::Scratch;
}

/// The buffers of one device, by what they are for.
class Buffers {
 public:
  Buffers(const schedule::Program& program, int device) {
    for (const Buffer& buffer : program.buffers) {
      if (buffer.device == device) by_key_.emplace(key(buffer), &buffer);
    }
  }

  /// The buffer of a kind that a segment (-1: the stage) has for a microbatch (-1: once), or null.
  const Buffer* of_stage(BufferKind kind, int stage, int segment, int microbatch) const {
    return find({kind, stage, segment, Direction::Forward, microbatch});
  }
  const Buffer* of_edge(BufferKind kind, int edge, Direction direction, int microbatch) const {
    return find({kind, -1, edge, direction, microbatch});
  }

 private:
  using Key = std::tuple<BufferKind, int, int, Direction, int>;

  static Key key(const Buffer& b) {
    const bool message = b.kind == BufferKind::Arriving || b.kind == BufferKind::Leaving;
    if (message && b.edge >= 0) return {b.kind, -1, b.edge, b.direction, b.microbatch};
    return {b.kind, b.stage, b.segment, Direction::Forward, b.microbatch};
  }
  const Buffer* find(const Key& wanted) const {
    const auto found = by_key_.find(wanted);
    return found == by_key_.end() ? nullptr : found->second;
  }

  std::map<Key, const Buffer*> by_key_;
};

/// Resolves names of the program to addresses of one device.
class Linker {
 public:
  Linker(const schedule::Program& program, int device, Arena& arena)
      : program_(program),
        device_(device),
        arena_(arena),
        topology_(program),
        buffers_(program, device) {}

  std::byte* address(const Buffer* buffer) const {
    return buffer == nullptr ? nullptr : arena_.at(buffer->offset);
  }

  /// Where the tensors are that a compute instruction works on.
  Frame frame(const Instruction& i, const SegmentPorts& ports) const {
    const int segment = std::max(i.segment, 0);
    Frame frame{};
    const auto set = [&](Region region, const Buffer* buffer) {
      frame[static_cast<int>(region)] = address(buffer);
    };
    const auto own = [&](BufferKind kind, int of) {
      return buffers_.of_stage(kind, i.stage, of, i.microbatch);
    };
    const auto kept = [&](BufferKind as_made, BufferKind returned) {
      const Buffer* back = i.op == Op::Forward ? nullptr : own(returned, i.segment);
      return back != nullptr ? back : own(as_made, i.segment);
    };
    set(Region::KeptForInput, kept(BufferKind::KeptForInput, BufferKind::ReturnedForInput));
    set(Region::KeptForWeight, kept(BufferKind::KeptForWeight, BufferKind::ReturnedForWeight));
    set(Region::InputKept, own(BufferKind::InputKept, i.segment));
    set(Region::Recomputed, own(BufferKind::Recomputed, i.segment));
    if (ports.x) {
      frame[static_cast<int>(Region::Input)] = arriving(i, *ports.x);
      frame[static_cast<int>(Region::InputGradient)] = gradient_to(i, *ports.x);
    }
    if (!ports.targets.empty()) {
      frame[static_cast<int>(Region::Output)] = leaving(i, segment, ports.targets[0]);
      frame[static_cast<int>(Region::OutputGradient)] = gradient_from(i, ports.gradients[0]);
    }
    return frame;
  }

  /// Sets the frame of a compute instruction.
  void join(LinkedInstruction& entry) const {
    const SegmentPorts& ports = entry.stage->ports(entry.pass.segment);
    entry.pass.frame = frame(entry.instruction, ports);
    entry.joints = joints(entry.instruction, ports);
    const std::span<std::byte* const> all(entry.joints);
    const std::size_t reads = 2 * ports.reads.size();
    const std::size_t copies = std::max<std::size_t>(ports.targets.size(), 1) - 1;
    entry.pass.frame.ports = all.first(reads);
    entry.pass.frame.copies = all.subspan(reads, copies);
    entry.pass.frame.gradients = all.subspan(reads + copies);
    const std::span<std::byte* const> further = entry.pass.frame.gradients;
    if (!further.empty() && further.front() == nullptr) entry.pass.frame.gradients = {};
  }

  /// What a frame has besides regions: two addresses for each read, copies of y, further gradients.
  std::vector<std::byte*> joints(const Instruction& i, const SegmentPorts& ports) const {
    std::vector<std::byte*> all;
    for (const auto& read : ports.reads) {
      all.push_back(read ? arriving(i, *read) : nullptr);
      all.push_back(read && read->wants_gradient ? gradient_to(i, *read) : nullptr);
    }
    for (std::size_t t = 1; t < ports.targets.size(); ++t)
      all.push_back(leaving(i, std::max(i.segment, 0), ports.targets[t]));
    for (std::size_t g = 1; g < ports.gradients.size(); ++g)
      all.push_back(gradient_from(i, ports.gradients[g]));
    return all;
  }

  /// What a REDUCE adds up in.
  std::span<std::byte> workspace(const Instruction& reduce) const {
    return bytes_of(buffers_.of_stage(BufferKind::Reducing, reduce.stage, reduce.segment, -1));
  }

  /// What a COLLECT brings together; nothing on an emulated device.
  CollectedRows collection(const Instruction& collect, const Stage* stage) const {
    if (stage == nullptr) return {};
    CollectedRows rows{.whole = collected(collect)};
    const int segment = std::max(collect.segment, 0);
    const SegmentPorts& ports = stage->ports(segment);
    const LayerSpec& reader = stage->segments()[segment].layers.front();
    rows.bytes = static_cast<std::size_t>(reader.x.shape.elements() * size_of(reader.x.dtype));
    for (int m = 0; m < program_.microbatches; ++m) {
      Instruction forward = collect;
      forward.microbatch = m;
      rows.sources.push_back(arriving(forward, *ports.x));
    }
    return rows;
  }

  /// Where what is collected lies, for a pass of the segment that reads it; null for others.
  std::byte* collected(const Instruction& i) const {
    return address(buffers_.of_stage(BufferKind::Collected, i.stage, i.segment, -1));
  }

  /// The number of a microbatch of this device's replica among all of the step.
  int number_of(int microbatch) const {
    return topology_.replica[device_] * program_.microbatches + microbatch;
  }

  /// Where the GATHER at `position` puts parameters.
  std::span<std::byte> gathered(int position) const {
    for (const Buffer& buffer : program_.buffers) {
      if (buffer.device == device_ && buffer.kind == BufferKind::Gathered &&
          buffer.first == position)
        return bytes_of(&buffer);
    }
    return {};
  }

  std::span<std::byte> message(const Instruction& instruction) const {
    const BufferKind kind = instruction.op == Op::Send ? BufferKind::Leaving : BufferKind::Arriving;
    const Buffer* buffer =
        buffers_.of_edge(kind, instruction.edge, instruction.direction, instruction.microbatch);
    if (buffer == nullptr) return {};
    const schedule::Edge& edge = program_.edges[instruction.edge];
    const std::int64_t bytes =
        instruction.direction == Direction::Forward ? edge.forward_bytes : edge.backward_bytes;
    return {arena_.at(buffer->offset), static_cast<std::size_t>(bytes)};
  }

  /// The device at the other end of the message.
  int peer(const Instruction& instruction) const {
    const schedule::Edge& edge = program_.edges[instruction.edge];
    const bool at_source =
        (instruction.op == Op::Send) == (instruction.direction == Direction::Forward);
    return program_.placement[at_source ? edge.to : edge.from][topology_.replica[device_]];
  }

  /// Unique among the messages between two devices within a step.
  int tag(const Instruction& i) const {
    return ((i.edge * program_.microbatches + i.microbatch) << 1) | static_cast<int>(i.direction);
  }

 private:
  /// Where the y of another segment arrives.
  std::byte* arriving(const Instruction& i, const PortSource& source) const {
    return address(source.edge < 0 ? buffers_.of_stage(BufferKind::SegmentInput, i.stage,
                                                       source.segment + 1, i.microbatch)
                                   : buffers_.of_edge(BufferKind::Arriving, source.edge,
                                                      Direction::Forward, i.microbatch));
  }

  /// Where its gradient goes.
  std::byte* gradient_to(const Instruction& i, const PortSource& source) const {
    std::byte* at =
        address(source.edge < 0 ? buffers_.of_stage(BufferKind::SegmentGradient, i.stage,
                                                    source.segment, i.microbatch)
                                : outgoing(source.edge, Direction::Backward, i.microbatch));
    return at == nullptr ? nullptr : at + source.gradient_offset;
  }

  /// Where the gradient of a segment's own y arrives.
  std::byte* gradient_from(const Instruction& i, const PortSource& reader) const {
    std::byte* at =
        address(reader.edge < 0 ? buffers_.of_stage(BufferKind::SegmentGradient, i.stage,
                                                    reader.segment, i.microbatch)
                                : buffers_.of_edge(BufferKind::Arriving, reader.edge,
                                                   Direction::Backward, i.microbatch));
    return at == nullptr ? nullptr : at + reader.gradient_offset;
  }

  /// Where a segment's y goes over an edge, or (-1) inside its stage.
  std::byte* leaving(const Instruction& i, int segment, int edge) const {
    return address(
        edge < 0 ? buffers_.of_stage(BufferKind::SegmentInput, i.stage, segment + 1, i.microbatch)
                 : outgoing(edge, Direction::Forward, i.microbatch));
  }

  std::span<std::byte> bytes_of(const Buffer* buffer) const {
    if (buffer == nullptr) return {};
    return {arena_.at(buffer->offset), static_cast<std::size_t>(buffer->bytes)};
  }

  /// Between two stages of one device the writer fills the reader's buffer directly.
  const Buffer* outgoing(int edge, Direction direction, int microbatch) const {
    const Buffer* leaving = buffers_.of_edge(BufferKind::Leaving, edge, direction, microbatch);
    return leaving != nullptr ? leaving
                              : buffers_.of_edge(BufferKind::Arriving, edge, direction, microbatch);
  }

  const schedule::Program& program_;
  int device_;
  Arena& arena_;
  schedule::Topology topology_;
  Buffers buffers_;
};

/// Numbers the messages in flight, so that a WAIT finds its SEND or RECV without a search.
class Slots {
 public:
  int take(const Instruction& post) {
    int slot = free_.empty() ? count_++ : free_.back();
    if (!free_.empty()) free_.pop_back();
    in_flight_[key(post, post.op)] = slot;
    return slot;
  }
  int give_back(const Instruction& wait) {
    const auto found = in_flight_.find(key(wait, wait.completes));
    CLEAVE_CHECK(found != in_flight_.end(), to_string(wait), " completes nothing");
    const int slot = found->second;
    in_flight_.erase(found);
    free_.push_back(slot);
    return slot;
  }
  int count() const { return count_; }

 private:
  using Key = std::tuple<Op, int, Direction, int>;
  static Key key(const Instruction& i, Op op) { return {op, i.edge, i.direction, i.microbatch}; }

  std::map<Key, int> in_flight_;
  std::vector<int> free_;
  int count_ = 0;
};

}  // namespace

LinkedProgram link(const schedule::Program& program, int device, const LinkOptions& options,
                   Arena& arena) {
  const Linker linker(program, device, arena);
  LinkedProgram linked;
  const auto& list = program.lists[device];
  linked.instructions.resize(list.size());
  for (const Buffer& buffer : program.buffers) {
    if (buffer.device != device || is_outside(buffer)) continue;
    const Block block{buffer.offset, buffer.bytes};
    if (is_lasting(buffer.kind)) {
      linked.lasting.push_back(block);
      if (buffer.kind == BufferKind::Scratch) {
        linked.scratch = arena.at(buffer.offset);
        linked.scratch_bytes = buffer.bytes;
      }
      continue;
    }
    linked.instructions[buffer.first].acquire.push_back(block);
    linked.instructions[buffer.last].release.push_back(block);
  }

  Slots slots;
  for (std::size_t i = 0; i < list.size(); ++i) {
    LinkedInstruction& entry = linked.instructions[i];
    entry.instruction = list[i];
    if (schedule::is_compute(list[i].op)) {
      entry.stage = options.stages[list[i].stage];
      entry.pass.segment = std::max(list[i].segment, 0);
      if (entry.stage != nullptr) linker.join(entry);
      entry.pass.frame[static_cast<int>(Region::Work)] = linked.scratch + options.kernel_scratch;
      entry.pass.sum = options.fold.sum_of(list[i].microbatch);
      if (options.fold.begins_shard(list[i].microbatch)) entry.pass.gradient = Write::Overwrite;
      entry.pass.ends_sum = options.fold.begins_shard(list[i].microbatch + 1);
      entry.pass.collected = linker.collected(list[i]);
      entry.pass.number = linker.number_of(list[i].microbatch);
      entry.pass.begins_step =
          entry.pass.collected != nullptr && list[i].op == Op::Forward && i > 0 &&
          !(list[i - 1].op == Op::Forward && list[i - 1].segment == list[i].segment);
    } else if (list[i].op == Op::Send || list[i].op == Op::Receive) {
      entry.message = linker.message(list[i]);
      entry.peer = linker.peer(list[i]);
      entry.tag = linker.tag(list[i]);
      entry.slot = slots.take(list[i]);
    } else if (list[i].op == Op::Wait && schedule::is_message(list[i])) {
      entry.slot = slots.give_back(list[i]);
    } else if (list[i].op == Op::Reduce) {
      entry.workspace = linker.workspace(list[i]);
    } else if (list[i].op == Op::Collect) {
      entry.collected = linker.collection(list[i], options.stages[list[i].stage]);
    } else if (list[i].op == Op::Gather) {
      entry.workspace = linker.gathered(static_cast<int>(i));
    }
  }
  linked.slots = slots.count();
  return linked;
}

LastingMemory lasting_memory(const schedule::Program& program, int device, int stage,
                             Arena& arena) {
  const Buffers buffers(program, device);
  const auto at = [&](BufferKind kind, int segment = -1) {
    const Buffer* buffer = buffers.of_stage(kind, stage, segment, -1);
    return buffer == nullptr ? nullptr : arena.at(buffer->offset);
  };
  LastingMemory memory{at(BufferKind::Weights), at(BufferKind::Gradients),
                       at(BufferKind::Optimizer)};
  for (int segment = 0; segment < program.segments[stage]; ++segment) {
    const int named = program.segments[stage] > 1 ? segment : -1;
    memory.sums.push_back(at(BufferKind::Sums, named));
    memory.shares.push_back(at(BufferKind::Share, named));
  }
  memory.memory = &arena.memory();
  return memory;
}

}  // namespace cleave::engine
