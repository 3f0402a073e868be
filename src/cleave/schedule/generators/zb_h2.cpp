#include "cleave/schedule/generators/zero_bubble.h"

namespace cleave::schedule {

// ZB-H2 (Qi et al., 2024): twice as far ahead as ZB-H1, for 2 devices - 1 live microbatches. From
// that many microbatches on, the bubble is (devices - 1)(F + I - 2W): none if F = I = W.
//
//   device 0 | F0 F1 F2 I0 W0 F3 I1 W1 I2 W2 I3 W3
//   device 1 | F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3
Program zb_h2(const PipelineShape& shape) {
  return delayed_weights("zb-h2", shape, /*reach=*/2);
}

}  // namespace cleave::schedule
