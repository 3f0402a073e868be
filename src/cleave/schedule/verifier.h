#pragma once

#include <string>
#include <vector>

#include "cleave/schedule/program.h"

namespace cleave::schedule {

/// One reason why a program must not run.
struct Violation {
  int device = -1;
  int index = -1;  ///< of the instruction in the device's list; -1: none, something is missing
  std::string reason;
};

/// How far a program has been lowered, and so what it must contain.
enum class Level : std::uint8_t {
  Compute,   ///< F I W B R only; messages between devices are implied and buffered
  Messages,  ///< every message is there; what serves gradients and parameters may still be missing
  Final,     ///< all of it: what the executor runs
  Forward,   ///< F with its messages and parameters, nothing else: what evaluation runs
};

// What the verifier takes for granted about instructions:
//
//   effects      are those of the table in effects.h. What is posted ends at its WAIT, once all
//                members have posted theirs; TIE and NORM block until all members have come;
//   segments     F runs them first to last, I last to first; a stage's messages are made by the
//                last of them to run and read by all, since an edge does not say by which;
//   R            at most once, after F and before I of the same segment;
//   parameters   whose replicas share values must be gathered for F, I, B and R, not for W;
//   actions      are those that gradient kinds and absences ask for, and no others;
//   moves        OUT and IN name what an F names, and move its buffers for I and W, of that stage
//                or segment; what is recomputed does not move.
//
// and about the lifetimes of buffers, of which longer ones are always fine:
//
//   KeptForInput      F (or R, where there is one) to I; to the WAIT of OUT where it moves
//   KeptForWeight     F (or R, where there is one) to W; to the WAIT of OUT where it moves
//   ReturnedForInput, ReturnedForWeight  IN to I, or W; as large as what was kept
//   Outside           OUT to the WAIT of IN; at least as large as all that was kept
//   KeptForRecompute  F to R
//   Recomputed        R to W
//   InputKept         I to W
//   SegmentInput      F of the segment before to F of its own, or R where there is one
//   SegmentGradient   I of the segment after to I of its own
//   Arriving          RECV, or on one device the F or I that makes it, to F or I; R of segment 0
//                     reads activations once more. Without an edge: F to F or that R
//   Leaving           F or I to WAIT(SEND); without an edge: F
//   Gathered          GATHER to FREE
//   Sums              the first W to the last, and to the WAIT of REDUCE
//   Reducing          REDUCE to its WAIT
//   all others        the whole list
//
// Buffers of an edge with bytes must be there. Those of a stage (or segment) must be there for
// every replica and microbatch if they are for one; InputKept among those with I and W apart, and
// among those with B; KeptForRecompute and Recomputed among those with R. One segment's buffers
// follow that segment only.

/// Empty: on every machine, the program cannot deadlock, race, exceed a budget, or miss a gradient,
/// even if no message is ever buffered. Otherwise the first violations (at most kMostViolations).
///
/// A later property is looked at only if the ones it builds on hold: header, placement and
/// operands; each action once and in order; messages and gradients; progress and memory. Buffers
/// are checked if the program has any. Takes any program, however wrong, in O(n log n) of its size.
std::vector<Violation> verify(const Program& program, Level level = Level::Final);

/// What a generator or a CSV file gives: `verify` at Level::Compute.
std::vector<Violation> verify_compute(const Program& program);

/// "device 2, instruction 17 (3F5): runs a second time".
std::string to_string(const Program& program, const Violation& violation);

inline constexpr std::size_t kMostViolations = 20;

/// Bounds that keep hostile programs from costing more than their size; no model comes near.
inline constexpr int kMostSegments = 4096;      ///< per stage
inline constexpr int kMostEdgesPerStage = 128;  ///< on average; the same for ties

}  // namespace cleave::schedule
