#include "cleave/schedule/generators/zero_bubble.h"

namespace cleave::schedule {

// ZB-H1 (Qi et al., Zero Bubble Pipeline Parallelism, 2024): the memory of 1F1B's first device on
// every device. From `devices` microbatches on, the bubble is (devices - 1)(F + I - W), as long as
// W is no longer than F and I.
//
//   device 0 | F0 F1 F2 I0 W0 F3 I1 W1 I2 W2 I3 W3
//   device 1 | F0 F1 I0 F2 I1 W0 F3 I2 W1 I3 W2 W3
//   device 2 | F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3
Program zb_h1(const PipelineShape& shape) {
  return delayed_weights("zb-h1", shape, /*reach=*/1);
}

}  // namespace cleave::schedule
