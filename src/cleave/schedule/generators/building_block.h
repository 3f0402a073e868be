#pragma once

#include "cleave/schedule/generators/generator.h"

namespace cleave::schedule {

/// When one microbatch is where, in units of a chunk's F = I = W = 1: it passes down the devices
/// (chunk 0), back up (chunk 1), and the gradient takes the same way. `down` and `up` are the steps
/// between neighbouring devices, the pauses are extra time at the turns.
struct BuildingBlock {
  int down;
  int up;
  int pause_at_loss;  ///< between F of the last stage and its I
  int pause_at_turn;  ///< between I of chunk 1 and of chunk 0 on the last device
};

/// Repeats the block every 6 units, as many as a device has work per microbatch, and writes down
/// the order. So the memory is what the block says: the sum of its lifetimes over 6. The caller
/// chooses a block in which no two actions of a device fall on the same unit modulo 6.
Program repeat(std::string_view schedule, const PipelineShape& shape, const BuildingBlock& block);

}  // namespace cleave::schedule
