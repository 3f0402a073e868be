#include "cleave/schedule/generators/building_block.h"

namespace cleave::schedule {

// V-Min (Qi et al., Pipeline Parallelism with Controllable Memory, 2024): a third of the memory of
// 1F1B, (devices + 4) / 3 microbatches rounded down, on every device. Its bubble is below that of
// 1F1B if F = I = W, and grows quickly if they differ.
//
//   device 0 | 0F0 3F0 3I0 3W0 0F1 0I0 0W0 3F1 3I1 3W1 0F2 0I1 0W1 3F2 3I2 3W2 0I2 0W2
//   device 1 | 1F0 2F0 2I0 1I0 1F1 2F1 2W0 1W0 2I1 1I1 1F2 2F2 2W1 1W1 2I2 1I2 2W2 1W2
Program v_min(const PipelineShape& shape) {
  return repeat(
      "v-min", shape,
      {.down = 1, .up = 1, .pause_at_loss = shape.devices % 3 == 0 ? 2 : 0, .pause_at_turn = 0});
}

}  // namespace cleave::schedule
