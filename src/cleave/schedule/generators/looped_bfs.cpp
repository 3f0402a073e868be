#include "cleave/schedule/generators/generator.h"

namespace cleave::schedule {

// GPipe with several stages per device, breadth first: all microbatches through one chunk, then the
// next (Lamy-Poirier, 2023). The bubble shrinks by the number of chunks; memory does not.
//
//   device 0 | 0F0 0F1 0F2 2F0 2F1 2F2 2B0 2B1 2B2 0B0 0B1 0B2
//   device 1 | 1F0 1F1 1F2 3F0 3F1 3F2 3B0 3B1 3B2 1B0 1B1 1B2
Program looped_bfs(const PipelineShape& shape) {
  Draft draft("looped-bfs", shape, Fold::Loop);
  for (DeviceId device{0}; device < shape.devices; ++device) {
    for (int chunk = 0; chunk < shape.chunks; ++chunk)
      for (MicrobatchId mb{0}; mb < shape.microbatches; ++mb) draft.forward(device, chunk, mb);
    for (int chunk = shape.chunks - 1; chunk >= 0; --chunk)
      for (MicrobatchId mb{0}; mb < shape.microbatches; ++mb) draft.backward(device, chunk, mb);
  }
  return std::move(draft).finish();
}

}  // namespace cleave::schedule
