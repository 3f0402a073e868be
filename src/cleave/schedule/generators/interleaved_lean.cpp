#include <vector>

#include "cleave/schedule/generators/rounds.h"

namespace cleave::schedule {

// `interleaved` in rounds of as many microbatches as devices. Where they do not fill the last
// round, it is the schedule of the next multiple without the microbatches that do not exist, which
// can neither break a dependency nor raise memory: the least memory of the two, and a longer step.
//
//   device 0 | 0F0 0F1 2F0 2F1 0F2 2B0 2B1 2F2 0B0 0B1 2B2 0B2
//   device 1 | 1F0 1F1 3F0 3B0 3F1 3B1 1F2 1B0 1B1 3F2 3B2 1B2
Program interleaved_lean(const PipelineShape& shape) {
  const int rounds = (shape.microbatches + shape.devices - 1) / shape.devices;
  return in_rounds("interleaved-lean", shape, std::vector<int>(rounds, shape.devices));
}

}  // namespace cleave::schedule
