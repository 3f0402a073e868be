#pragma once

#include <compare>
#include <cstdint>

#include "cleave/schedule/instruction.h"

namespace cleave::schedule {

/// What a piece of memory is for.
enum class BufferKind : std::uint8_t {
  Weights,           ///< of a stage, whole step
  Gradients,         ///< of a stage, whole step
  Optimizer,         ///< of a stage, whole step
  KeptForInput,      ///< what F (or R) keeps for I
  KeptForWeight,     ///< what F (or R) keeps for W
  KeptForRecompute,  ///< what F keeps for R
  Recomputed,        ///< what R brings back for W, where F keeps the rest
  InputKept,         ///< what I keeps for W; inside a B, what passes between its halves
  SegmentInput,      ///< y of the segment before this one, for it or later ones of its stage
  SegmentGradient,   ///< dy of a segment, written by the I of those that read it in its stage
  Arriving,   ///< filled by a RECV, by a stage of the same device, or (edge -1) by the stage itself
  Leaving,    ///< written by F or I and sent by a SEND; edge -1: y that stays (the loss)
  Gathered,   ///< whole parameters of a segment, from GATHER to FREE
  Sums,       ///< whole gradients of a segment whose replicas keep shares: first W to WAIT:REDUCE
  Share,      ///< what this device keeps of them, from REDUCE on
  Reducing,   ///< what a REDUCE adds up in, until its WAIT
  Collected,  ///< what a COLLECT brings together, until the last I that reads it
  Scratch,    ///< of the kernels; one per device, whole step
  ReturnedForInput,   ///< what was kept for I and came back: from IN on
  ReturnedForWeight,  ///< the same, for W
  Outside,            ///< what OUT has moved, until IN has brought it back; in the device's outside
  FetchedState,       ///< optimizer state for STEP: from IN to the WAIT of its OUT
  StoredState,        ///< where it is between steps; whole step, in the device's outside
  ArrivingOnHost,     ///< what RECV fills and IN brings to an Arriving buffer; in the host's memory
  LeavingOnHost,      ///< what OUT fills from a Leaving buffer and SEND sends; in the host's memory
  // What collectives of a device pass through in the host's memory, each from its post to its WAIT.
  ReducingOnHost,
  GatheringOnHost,
  RefreshingOnHost,
  CollectingOnHost,
  ScratchOnHost,  ///< what TIE and sums inside layers pass through; one per device, whole step
};

/// A piece of a device's memory, or of its outside: memory of the host or a disk, which nothing but
/// OUT and IN reaches and whose offsets are counted from its own begin; or of the host's memory
/// that its messages and sums pass through, the same way. Lives from instruction `first` up to and
/// including `last` of its device's list; static buffers from 0 to the end.
struct Buffer {
  BufferKind kind = BufferKind::Scratch;
  std::int32_t device = 0;
  std::int32_t stage = -1;  ///< owner, for all but scratch and messages over an edge
  std::int32_t edge = -1;   ///< Arriving, Leaving
  Direction direction = Direction::Forward;
  std::int32_t microbatch = -1;
  std::int32_t segment = -1;
  std::int64_t bytes = 0;
  std::int32_t first = 0;
  std::int32_t last = 0;
  std::int64_t offset = -1;  ///< -1 until planned

  friend auto operator<=>(const Buffer&, const Buffer&) = default;
};

/// True if the buffer lasts the whole step, in its device's memory.
constexpr bool is_lasting(const Buffer& buffer) {
  return buffer.kind <= BufferKind::Optimizer || buffer.kind == BufferKind::Scratch;
}

/// True if the buffer lies outside of its device's memory.
constexpr bool is_outside(const Buffer& buffer) {
  return buffer.kind == BufferKind::Outside || buffer.kind == BufferKind::StoredState;
}

/// True if it lies in the memory of the host that messages and sums pass through.
constexpr bool is_on_host(const Buffer& buffer) {
  return buffer.kind >= BufferKind::ArrivingOnHost;
}

/// True if it is a message there.
constexpr bool is_message_on_host(const Buffer& buffer) {
  return buffer.kind == BufferKind::ArrivingOnHost || buffer.kind == BufferKind::LeavingOnHost;
}

/// True if a collective passes through it there.
constexpr bool is_exchange_on_host(const Buffer& buffer) {
  return buffer.kind >= BufferKind::ReducingOnHost && buffer.kind <= BufferKind::CollectingOnHost;
}

/// What a collective that replicas post passes through on the host.
constexpr BufferKind on_host_of(Op collective) {
  return collective == Op::Reduce    ? BufferKind::ReducingOnHost
         : collective == Op::Gather  ? BufferKind::GatheringOnHost
         : collective == Op::Refresh ? BufferKind::RefreshingOnHost
                                     : BufferKind::CollectingOnHost;
}

}  // namespace cleave::schedule
