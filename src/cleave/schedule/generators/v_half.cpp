#include "cleave/schedule/generators/building_block.h"

namespace cleave::schedule {

// V-Half (Qi et al., Pipeline Parallelism with Controllable Memory, 2024): half the memory of 1F1B,
// (devices + 2) / 2 microbatches rounded down, on every device, and a smaller bubble if F = I = W.
//
//   device 0 | 0F0 3F0 0F1 3I0 3W0 3F1 0F2 0I0 3I1 3W1 3F2 0W0 0I1 3I2 3W2 0W1 0I2 0W2
//   device 1 | 1F0 2F0 1F1 2F1 2I0 2W0 1I0 1W0 1F2 2F2 2I1 2W1 1I1 1W1 2I2 2W2 1I2 1W2
Program v_half(const PipelineShape& shape) {
  return repeat(
      "v-half", shape,
      {.down = 2, .up = 1, .pause_at_loss = shape.devices % 2 == 0 ? 3 : 0, .pause_at_turn = 1});
}

}  // namespace cleave::schedule
