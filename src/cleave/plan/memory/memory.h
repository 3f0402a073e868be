#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cleave/schedule/program.h"

namespace cleave::plan {

/// What one segment of a stage occupies, in bytes; like named fields of StageMemory.
struct SegmentMemory {
  // Per microbatch in flight.
  std::int64_t kept_for_input = 0;
  std::int64_t kept_for_weight = 0;
  std::int64_t input_kept = 0;
  std::int64_t backward_work = 0;
  std::int64_t kept_for_recompute = 0;
  std::int64_t recomputed = 0;     ///< R to W, beside what is kept from F on
  bool keeps_inputs_only = false;  ///< kept_for_* begin at R; without R there are none
  std::int64_t x = 0;              ///< from the segment before it: F of that one to `x_until`
  std::int64_t dy = 0;             ///< from the segment after it: I of that one to `dy_until`
  schedule::Op x_until = schedule::Op::Forward;
  schedule::Op dy_until = schedule::Op::BackwardInput;

  std::int64_t gathered = 0;  ///< from GATHER to FREE
  /// Whole gradients, where replicas keep shares: from the first W to the WAIT of REDUCE; or all
  /// the time, with the share in them.
  std::int64_t sums = 0;
  std::int64_t share = 0;      ///< of `sums` where those end, from REDUCE on
  std::int64_t reducing = 0;   ///< from REDUCE to its WAIT
  std::int64_t collected = 0;  ///< from COLLECT to the last I of the step
  std::int64_t state = 0;      ///< of `optimizer`, this segment's; from IN to OUT where it moves

  // In the host's memory, where what replicas exchange passes through it: from the post of a
  // collective to its WAIT.
  std::int64_t reducing_on_host = 0;
  std::int64_t gathering_on_host = 0;
  std::int64_t refreshing_on_host = 0;
  std::int64_t collecting_on_host = 0;
};

/// What one stage occupies, in bytes.
struct StageMemory {
  // Whole step, once.
  std::int64_t weights = 0;
  std::int64_t gradients = 0;  ///< or the `sums` and shares of its segments
  std::int64_t optimizer = 0;  ///< outside, where OUT and IN move it
  std::int64_t saved = 0;      ///< of these, what checkpoints hold; no buffer of its own
  std::int64_t scratch = 0;  ///< what any of its instructions needs while it runs; devices take the
                             ///< largest of their stages
  std::int64_t scratch_on_host = 0;  ///< the same of what passes through the host's memory

  // Per microbatch in flight.
  std::int64_t kept_for_input = 0;      ///< written by F, last read by I
  std::int64_t kept_for_weight = 0;     ///< written by F, last read by W
  std::int64_t input_kept = 0;          ///< written by I, last read by W, where the two are apart
  std::int64_t backward_work = 0;       ///< takes the place of input_kept inside a B
  std::int64_t kept_for_recompute = 0;  ///< F to R, where there is an R; kept_for_* then begin at R
  std::int64_t loaded = 0;  ///< x that comes over no edge (tokens, labels): F to `input_until`
  std::int64_t result = 0;  ///< y that leaves over no edge (the loss): F to `output_until`

  std::int64_t gathered = 0;  ///< from GATHER to FREE

  // The last pass that reads a tensor: Forward, BackwardInput or BackwardWeight.
  schedule::Op input_until = schedule::Op::Forward;           ///< x
  schedule::Op output_until = schedule::Op::Forward;          ///< y, by this stage itself
  schedule::Op gradient_until = schedule::Op::BackwardInput;  ///< dy

  /// One by one; they replace what the stage says of its microbatches and of `gathered`. The
  /// stage's x is then read by the first of them only, its dy by the last. Empty: a segment takes
  /// an equal share, and nothing passes between segments.
  std::vector<SegmentMemory> segments = {};
};

/// Replaces program.buffers: lifetimes as the instruction lists imply, then offsets. What lives the
/// whole step is at the bottom of each device's memory, in the order of its stages.
///
/// A message buffer lives from its RECV (or, to leave, from the pass that writes it) to the last
/// read (or the WAIT of its SEND); a tensor that passes between two stages of one device is one
/// Arriving buffer. Where replicas share gradients, a device's shares have buffers of their own if
/// that takes less than leaving them in the sums. What OUT moves leaves room behind until IN, and
/// is outside meanwhile. Buffers of no bytes are left out.
void plan_memory(schedule::Program& program, std::span<const StageMemory> stages);

/// The same for a program without a backward pass that runs between steps of `training`, whose plan
/// is made: what lives the whole step is where that one has it.
void plan_evaluation_memory(schedule::Program& evaluation, std::span<const StageMemory> stages,
                            const schedule::Program& training);

/// [device] -> the end of its highest buffer: what its budget must hold.
std::vector<std::int64_t> peak_bytes(const schedule::Program& program);

/// [device] -> the same of what has moved out of its memory.
std::vector<std::int64_t> outside_bytes(const schedule::Program& program);

/// [device] -> the same of its messages and sums in the memory of the host.
std::vector<std::int64_t> host_bytes(const schedule::Program& program);

}  // namespace cleave::plan
