#include <algorithm>

#include "cleave/schedule/generators/generator.h"

namespace cleave::schedule {
namespace {

struct Turn {
  int chunk;
  int microbatch;
};

// The k-th forward of a device: a round of `devices` microbatches through chunk 0, the same round
// through chunk 1, and so on; then the next round.
Turn turn(const PipelineShape& shape, int k) {
  const int round = shape.devices * shape.chunks;
  return {k % round / shape.devices, k / round * shape.devices + k % shape.devices};
}

}  // namespace

// 1F1B with several stages per device (Narayanan et al., 2021): the bubble shrinks by the number
// of chunks, for more messages and (devices - 1) / chunks more live microbatches.
//
//   device 0 | 0F0 0F1 2F0 2F1 0F2 2B0 0F3 2B1 2F2 0B0 2F3 0B1 2B2 2B3 0B2 0B3
//   device 1 | 1F0 1F1 3F0 3B0 3F1 3B1 1F2 1B0 1F3 1B1 3F2 3B2 3F3 3B3 1B2 1B3
//
// Rounds are whole: a step whose microbatches do not fill the last one is the schedule of the next
// multiple, without the microbatches that do not exist. Leaving out whole microbatches can neither
// break a dependency nor raise memory.
Program interleaved(const PipelineShape& shape) {
  Draft draft("interleaved", shape, Fold::Loop);
  const int rounds = (shape.microbatches + shape.devices - 1) / shape.devices;
  const int turns = rounds * shape.devices * shape.chunks;
  for (int device = 0; device < shape.devices; ++device) {
    const auto forward = [&](int k) {
      const auto [chunk, mb] = turn(shape, k);
      draft.forward(device, chunk, mb);
    };
    const auto backward = [&](int k) {
      const auto [chunk, mb] = turn(shape, k);
      draft.backward(device, shape.chunks - 1 - chunk, mb);
    };
    const int ahead =
        std::min(2 * (shape.devices - 1 - device) + (shape.chunks - 1) * shape.devices, turns);
    for (int k = 0; k < ahead; ++k) forward(k);
    for (int k = 0; k < turns - ahead; ++k) {
      forward(k + ahead);
      backward(k);
    }
    for (int k = turns - ahead; k < turns; ++k) backward(k);
  }
  return std::move(draft).finish();
}

}  // namespace cleave::schedule
