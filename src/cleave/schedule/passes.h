#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "cleave/schedule/program.h"

namespace cleave::schedule {

/// What a stage does about activations that its backward needs. Selective and Full both run R; they
/// differ in what F keeps, which is a matter of costs and buffers.
enum class Recompute : std::uint8_t { None, Selective, Full };

/// Whether an action on a stage is one instruction, or one per segment of the stage.
enum class Grain : std::uint8_t { Stage, Segment };

/// What leaves a device's memory while it is not used.
enum class Offload : std::uint8_t {
  Nothing,
  Activations,  ///< what F keeps, until its backward pass
  Optimizer,    ///< what only STEP reads, between steps
  Both,
};

constexpr bool moves_activations(Offload offload) {
  return offload == Offload::Activations || offload == Offload::Both;
}

constexpr bool moves_state(Offload offload) {
  return offload == Offload::Optimizer || offload == Offload::Both;
}

/// What lowering adds to a compute-only program.
struct LowerOptions {
  int replicas = 1;                       ///< data-parallel copies of the pipeline
  std::vector<Recompute> recompute = {};  ///< [stage]; empty: none
  /// [stage][segment] true: keeps everything although its stage recomputes; empty: no such segment.
  std::vector<std::vector<bool>> keeping = {};
  Grain grain = Grain::Stage;
  Sharing sharing = Sharing::Nothing;  ///< of all stages, if there are replicas
  Offload offload = Offload::Nothing;  ///< where there is time for it
  /// What F keeps has so many compute instructions to move out beside, and as many to come back:
  /// each hides more of a slow move, and leaves the memory to others for two instructions less.
  int moves_beside = 1;

  /// A RECV is posted this many compute instructions before the one that reads it: a transfer that
  /// takes no longer than they do costs nothing, and each adds one message buffer. At least 1.
  int receive_ahead = 1;

  std::vector<int> through_host = {};  ///< Program::through_host, of the replicated program
};

/// One rewriting of a program. A pass relies on those before it in `passes()`.
struct Pass {
  std::string_view name;
  Program (*run)(Program program, const LowerOptions& options);
};

/// In the order in which `lower` runs them.
std::span<const Pass> passes();

struct PassTime {
  std::string_view pass;
  double seconds = 0;
};

/// The program that devices can run: all passes, one after another. Throws UserError if `program`
/// has anything but compute, or lacks an F or backward of some stage and microbatch. `times`, if
/// given, gets one entry per pass.
Program lower(Program program, const LowerOptions& options, std::vector<PassTime>* times = nullptr);

}  // namespace cleave::schedule
