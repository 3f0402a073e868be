#include "cleave/engine/run/linker.h"

#include <algorithm>

namespace cleave::engine {

using plan::Region;
using schedule::Buffer;
using schedule::BufferKind;
using schedule::Direction;
using schedule::Instruction;
using schedule::Op;

DeviceBuffers::DeviceBuffers(const schedule::Program& program, int device) {
  for (const Buffer& buffer : program.buffers) {
    if (buffer.device == device) by_key_.emplace(key(buffer), &buffer);
  }
}

const Buffer* DeviceBuffers::of_stage(BufferKind kind, StageId stage, SegmentId segment,
                                      MicrobatchId microbatch) const {
  return find({kind, stage, segment, Direction::Forward, microbatch});
}

const Buffer* DeviceBuffers::of_edge(BufferKind kind, int edge, Direction direction,
                                     MicrobatchId microbatch) const {
  return find({kind, -1, edge, direction, microbatch});
}

DeviceBuffers::Key DeviceBuffers::key(const Buffer& b) {
  const bool message =
      b.kind == BufferKind::Arriving || b.kind == BufferKind::Leaving || is_on_host(b);
  if (message && b.edge >= 0) return {b.kind, -1, b.edge, b.direction, b.microbatch};
  return {b.kind, b.stage, b.segment, Direction::Forward, b.microbatch};
}

const Buffer* DeviceBuffers::find(const Key& wanted) const {
  const auto found = by_key_.find(wanted);
  return found == by_key_.end() ? nullptr : found->second;
}

Linker::Linker(const schedule::Program& program, int device, Arena& arena)
    : program_(program),
      device_(device),
      arena_(arena),
      topology_(program),
      buffers_(program, device) {}

void Linker::join(LinkedInstruction& entry) const {
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

std::span<std::byte> Linker::workspace(const Instruction& reduce) const {
  return bytes_of(buffers_.of_stage(BufferKind::Reducing, StageId{reduce.stage},
                                    SegmentId{reduce.segment}, MicrobatchId{-1}));
}

CollectedRows Linker::collection(const Instruction& collect, const Stage* stage) const {
  if (stage == nullptr) return {};
  CollectedRows rows{.whole = collected(collect)};
  const int segment = std::max(collect.segment, 0);
  const SegmentPorts& ports = stage->ports(segment);
  const LayerSpec& reader = stage->segments()[segment].layers.front();
  rows.bytes = static_cast<std::size_t>(reader.x.shape.elements() * size_of(reader.x.dtype));
  for (int m = 0; m < topology_.microbatches(device_); ++m) {
    Instruction forward = collect;
    forward.microbatch = m;
    rows.sources.push_back(arriving(forward, *ports.x));
  }
  return rows;
}

std::byte* Linker::collected(const Instruction& i) const {
  return address(buffers_.of_stage(BufferKind::Collected, StageId{i.stage}, SegmentId{i.segment},
                                   MicrobatchId{-1}));
}

int Linker::number_of(int microbatch) const {
  return topology_.replica[device_] * program_.microbatches + microbatch;
}

std::span<std::byte> Linker::gathered(int position) const {
  for (const Buffer& buffer : program_.buffers) {
    if (buffer.device == device_ && buffer.kind == BufferKind::Gathered && buffer.first == position)
      return bytes_of(&buffer);
  }
  return {};
}

std::span<std::byte> Linker::message(const Instruction& instruction) const {
  const BufferKind kind = instruction.op == Op::Send ? BufferKind::Leaving : BufferKind::Arriving;
  const Buffer* buffer = buffers_.of_edge(kind, instruction.edge, instruction.direction,
                                          MicrobatchId{instruction.microbatch});
  if (buffer == nullptr) return {};
  return {arena_.at(buffer->offset), static_cast<std::size_t>(message_bytes(instruction))};
}

std::int64_t Linker::message_bytes(const Instruction& message) const {
  const schedule::Edge& edge = program_.edges[message.edge];
  return message.direction == Direction::Forward ? edge.forward_bytes : edge.backward_bytes;
}

int Linker::other_end(const Instruction& message) const {
  const schedule::Edge& edge = program_.edges[message.edge];
  const Op op = message.op == Op::Wait ? message.completes : message.op;
  const bool at_source = (op == Op::Send) == (message.direction == Direction::Forward);
  const int replica = topology_.of_replica(device_, message).replica;
  return program_.placement[at_source ? edge.to : edge.from][replica];
}

std::vector<Peers::Slice> Linker::slices(const Instruction& message, const Peers& peers) const {
  const int place = other_end(message);
  const std::int64_t bytes = message_bytes(message);
  return message.op == Op::Send ? peers.sent(place, bytes) : peers.received(place, bytes);
}

std::vector<std::size_t> Linker::gathered_slices(const Instruction& wait,
                                                 const Peers& peers) const {
  if (wait.completes != Op::Receive) return {};
  return peers.gathered(other_end(wait), message_bytes(wait));
}

int Linker::tag(const Instruction& i) const {
  const int of_step = program_.replicas * program_.microbatches;
  return ((i.edge * of_step + number_of(i.microbatch)) << 1) | static_cast<int>(i.direction);
}

/// Where the tensors are that a compute instruction works on.
Frame Linker::frame(const Instruction& i, const SegmentPorts& ports) const {
  const SegmentId segment{std::max(i.segment, 0)};
  Frame frame{};
  const auto set = [&](Region region, const Buffer* buffer) {
    frame[static_cast<int>(region)] = address(buffer);
  };
  const auto named = [&](BufferKind kind) { return own(kind, i, SegmentId{i.segment}); };
  const auto kept = [&](BufferKind as_made, BufferKind returned) {
    const Buffer* back = i.op == Op::Forward ? nullptr : named(returned);
    return back != nullptr ? back : named(as_made);
  };
  set(Region::KeptForInput, kept(BufferKind::KeptForInput, BufferKind::ReturnedForInput));
  set(Region::KeptForWeight, kept(BufferKind::KeptForWeight, BufferKind::ReturnedForWeight));
  set(Region::InputKept, named(BufferKind::InputKept));
  set(Region::Recomputed, named(BufferKind::Recomputed));
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

/// What a frame has besides regions: two addresses for each read, copies of y, further gradients.
std::vector<std::byte*> Linker::joints(const Instruction& i, const SegmentPorts& ports) const {
  std::vector<std::byte*> all;
  for (const auto& read : ports.reads) {
    all.push_back(read ? arriving(i, *read) : nullptr);
    all.push_back(read && read->wants_gradient ? gradient_to(i, *read) : nullptr);
  }
  for (std::size_t t = 1; t < ports.targets.size(); ++t)
    all.push_back(leaving(i, SegmentId{std::max(i.segment, 0)}, ports.targets[t]));
  for (std::size_t g = 1; g < ports.gradients.size(); ++g)
    all.push_back(gradient_from(i, ports.gradients[g]));
  return all;
}

/// Where the y of another segment arrives.
std::byte* Linker::arriving(const Instruction& i, const PortSource& source) const {
  return address(source.edge < 0
                     ? own(BufferKind::SegmentInput, i, SegmentId{source.segment + 1})
                     : buffers_.of_edge(BufferKind::Arriving, source.edge, Direction::Forward,
                                        MicrobatchId{i.microbatch}));
}

/// Where its gradient goes.
std::byte* Linker::gradient_to(const Instruction& i, const PortSource& source) const {
  std::byte* at = address(
      source.edge < 0 ? own(BufferKind::SegmentGradient, i, SegmentId{source.segment})
                      : outgoing(source.edge, Direction::Backward, MicrobatchId{i.microbatch}));
  return at == nullptr ? nullptr : at + source.gradient_offset;
}

/// Where the gradient of a segment's own y arrives.
std::byte* Linker::gradient_from(const Instruction& i, const PortSource& reader) const {
  std::byte* at =
      address(reader.edge < 0 ? own(BufferKind::SegmentGradient, i, SegmentId{reader.segment})
                              : buffers_.of_edge(BufferKind::Arriving, reader.edge,
                                                 Direction::Backward, MicrobatchId{i.microbatch}));
  return at == nullptr ? nullptr : at + reader.gradient_offset;
}

/// Where a segment's y goes over an edge, or (-1) inside its stage.
std::byte* Linker::leaving(const Instruction& i, SegmentId segment, int edge) const {
  return address(edge < 0 ? own(BufferKind::SegmentInput, i, SegmentId{segment + 1})
                          : outgoing(edge, Direction::Forward, MicrobatchId{i.microbatch}));
}

std::byte* Linker::address(const Buffer* buffer) const {
  return buffer == nullptr ? nullptr : arena_.at(buffer->offset);
}

std::span<std::byte> Linker::bytes_of(const Buffer* buffer) const {
  if (buffer == nullptr) return {};
  return {arena_.at(buffer->offset), static_cast<std::size_t>(buffer->bytes)};
}

const Buffer* Linker::own(BufferKind kind, const Instruction& i, SegmentId segment) const {
  return buffers_.of_stage(kind, StageId{i.stage}, segment, MicrobatchId{i.microbatch});
}

/// Between two stages of one device the writer fills the reader's buffer directly.
const Buffer* Linker::outgoing(int edge, Direction direction, MicrobatchId microbatch) const {
  const Buffer* leaving = buffers_.of_edge(BufferKind::Leaving, edge, direction, microbatch);
  return leaving != nullptr ? leaving
                            : buffers_.of_edge(BufferKind::Arriving, edge, direction, microbatch);
}

}  // namespace cleave::engine
