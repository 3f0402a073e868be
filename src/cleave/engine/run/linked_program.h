#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "cleave/engine/run/mover.h"
#include "cleave/engine/stage/gradient_sync.h"
#include "cleave/engine/stage/peers.h"
#include "cleave/engine/stage/stage.h"
#include "cleave/schedule/program.h"
#include "cleave/tensor/arena.h"

namespace cleave::engine {

/// A piece of the arena that an instruction takes or gives back.
struct Block {
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
};

/// A segment of a stage.
struct SegmentOf {
  StageId stage;
  SegmentId segment;
};

/// COLLECT: rows of every microbatch of a device, and where those of all of them come together.
struct CollectedRows {
  std::vector<const std::byte*> sources;  ///< [microbatch]
  std::size_t bytes = 0;                  ///< of each
  std::byte* whole = nullptr;
};

/// An instruction with everything resolved that does not change from step to step.
struct LinkedInstruction {
  schedule::Instruction instruction;
  Stage* stage = nullptr;             ///< compute; null on an emulated device
  SegmentPass pass;                   ///< compute
  std::vector<SumMerge> merges;       ///< W, B: what is added up after it
  std::vector<SegmentOf> cleared;     ///< REDUCE, TIE, NORM: sums without a W, zero from here on
  std::span<std::byte> message;       ///< SEND, RECV; WAIT of what is gathered
  std::vector<Peers::Slice> slices;   ///< SEND, RECV: who has which part of it
  std::vector<std::size_t> gathered;  ///< WAIT of a RECV: Peers::gathered
  std::span<std::byte> workspace;     ///< REDUCE: to add up in; GATHER: whole parameters
  CollectedRows collected;            ///< COLLECT
  int tag = -1;                       ///< SEND, RECV
  int slot = -1;                      ///< SEND, RECV and their WAIT: which message in flight;
                                      ///< OUT, IN and theirs: which of the step's moves
  std::vector<std::byte*> joints;     ///< what the pass's frame refers to besides regions
  std::vector<Block> acquire;         ///< before it runs
  std::vector<Block> release;         ///< after it ran
  std::vector<Mover::Copy> copies;    ///< OUT, IN
  Block outside;                      ///< OUT, IN and their WAIT: where they move to or from
  Block on_host;                      ///< where messages, their OUT and IN, and collectives of
                                      ///< replicas and their WAIT pass through the host
};

/// The list of one device, linked to its stages and its arena. Offsets are the plan's; nothing is
/// looked up while a step runs.
struct LinkedProgram {
  std::vector<LinkedInstruction> instructions;
  std::vector<Block> lasting;  ///< in use between steps too
  std::vector<Block> resting;  ///< the same outside: state that only STEP has inside
  Block scratch_on_host;       ///< what TIE and sums inside layers pass through, between steps too
  std::byte* scratch = nullptr;  ///< kernel scratch and work of all stages
  std::int64_t scratch_bytes = 0;
  std::int64_t planned_bytes = 0;          ///< the end of its highest buffer
  std::int64_t planned_outside_bytes = 0;  ///< the same outside
  std::int64_t planned_host_bytes = 0;     ///< the same of what passes through the host's memory
  int slots = 0;                           ///< most messages in flight at once
  int message_moves = 0;                   ///< OUT and IN of messages in a step
  int exchanges_on_host = 0;               ///< collectives that pass through the host in a step
  int moves = 0;                           ///< what moves out and back in a step
};

/// `stages[s]` is the stage `s` of the program if it is on `device`, else null.
struct LinkOptions {
  std::span<Stage* const> stages;
  const Peers& peers;  ///< of the device
  std::int64_t kernel_scratch = 0;
};
LinkedProgram link(const schedule::Program& program, int device, const LinkOptions& options,
                   Arena& arena);

/// The lasting memory that the plan gave stage `stage` of `device`.
LastingMemory lasting_memory(const schedule::Program& program, DeviceId device, StageId stage,
                             Arena& arena, Arena& outside);

/// What TIE and sums inside layers pass through in the host's memory; empty where they do not.
std::span<std::byte> scratch_on_host(const schedule::Program& program, int device,
                                     const Arena* host);

/// Where fetched state begins in its buffer: on a border of a disk's blocks.
std::byte* fetched_at(const schedule::Buffer& buffer, const Arena& arena);

}  // namespace cleave::engine
