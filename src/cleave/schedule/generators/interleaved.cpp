#include <algorithm>
#include <vector>

#include "cleave/schedule/generators/rounds.h"

namespace cleave::schedule {

// 1F1B with several stages per device (Narayanan et al., 2021): the bubble shrinks by the number
// of chunks, for more messages and more live microbatches.
//
//   device 0 | 0F0 0F1 2F0 2F1 0F2 2B0 0F3 2B1 2F2 0B0 2F3 0B1 2B2 2B3 0B2 0B3
//   device 1 | 1F0 1F1 3F0 3B0 3F1 3B1 1F2 1B0 1F3 1B1 3F2 3B2 3F3 3B3 1B2 1B3
//
// As many rounds as have a microbatch for every device, as even as possible, the larger first.
// Where microbatches divide by devices they are as many as devices. Where rounds are equal, this is
// the order of torch's Interleaved1F1B.
Program interleaved(const PipelineShape& shape) {
  const int rounds = std::max(1, shape.microbatches / shape.devices);
  std::vector<int> sizes(rounds, shape.microbatches / rounds);
  for (int round = 0; round < shape.microbatches % rounds; ++round) ++sizes[round];
  return in_rounds("interleaved", shape, sizes);
}

}  // namespace cleave::schedule
