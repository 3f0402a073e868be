#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "cleave/engine/run/linked_program.h"

namespace cleave::engine {

/// The buffers of one device, by what they are for.
class DeviceBuffers {
 public:
  using Buffer = schedule::Buffer;
  using BufferKind = schedule::BufferKind;
  using Direction = schedule::Direction;

  DeviceBuffers(const schedule::Program& program, int device);

  /// The buffer of a kind that a segment (-1: the stage) has for a microbatch (-1: once), or null.
  const Buffer* of_stage(BufferKind kind, StageId stage, SegmentId segment,
                         MicrobatchId microbatch) const;
  const Buffer* of_edge(BufferKind kind, int edge, Direction direction,
                        MicrobatchId microbatch) const;

 private:
  using Key = std::tuple<BufferKind, int, int, Direction, int>;

  static Key key(const Buffer& buffer);
  const Buffer* find(const Key& wanted) const;

  std::map<Key, const Buffer*> by_key_;
};

/// Resolves names of the program to addresses of one device.
class Linker {
 public:
  Linker(const schedule::Program& program, int device, Arena& arena);

  /// Sets the frame of a compute instruction.
  void join(LinkedInstruction& entry) const;

  /// What a REDUCE adds up in.
  std::span<std::byte> workspace(const schedule::Instruction& reduce) const;

  /// What a COLLECT brings together; nothing on an emulated device.
  CollectedRows collection(const schedule::Instruction& collect, const Stage* stage) const;

  /// Where what is collected lies, for a pass of the segment that reads it; null for others.
  std::byte* collected(const schedule::Instruction& instruction) const;

  /// The number of a microbatch of this device among all of the step.
  int number_of(int microbatch) const;

  /// Where the GATHER at `position` puts parameters.
  std::span<std::byte> gathered(int position) const;

  std::span<std::byte> message(const schedule::Instruction& instruction) const;

  /// What this device sends or receives of a message.
  std::vector<Peers::Slice> slices(const schedule::Instruction& message, const Peers& peers) const;

  /// How the message that a WAIT is about comes in slices to the devices of a place.
  std::vector<std::size_t> gathered_slices(const schedule::Instruction& wait,
                                           const Peers& peers) const;

  /// Unique among the messages between two devices within a step.
  int tag(const schedule::Instruction& instruction) const;

 private:
  /// The place at the other end of a message.
  int other_end(const schedule::Instruction& message) const;
  std::int64_t message_bytes(const schedule::Instruction& message) const;
  Frame frame(const schedule::Instruction& i, const SegmentPorts& ports) const;
  std::vector<std::byte*> joints(const schedule::Instruction& i, const SegmentPorts& ports) const;
  std::byte* arriving(const schedule::Instruction& i, const PortSource& source) const;
  std::byte* gradient_to(const schedule::Instruction& i, const PortSource& source) const;
  std::byte* gradient_from(const schedule::Instruction& i, const PortSource& reader) const;
  std::byte* leaving(const schedule::Instruction& i, SegmentId segment, int edge) const;
  std::byte* address(const schedule::Buffer* buffer) const;
  std::span<std::byte> bytes_of(const schedule::Buffer* buffer) const;
  /// What a segment (-1: the stage) of this instruction's stage has for its microbatch.
  const schedule::Buffer* own(schedule::BufferKind kind, const schedule::Instruction& i,
                              SegmentId segment) const;
  const schedule::Buffer* outgoing(int edge, schedule::Direction direction,
                                   MicrobatchId microbatch) const;

  const schedule::Program& program_;
  int device_;
  Arena& arena_;
  schedule::Topology topology_;
  DeviceBuffers buffers_;
};

}  // namespace cleave::engine
