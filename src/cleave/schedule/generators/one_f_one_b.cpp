#include <algorithm>
#include <cstdint>

#include "cleave/schedule/generators/generator.h"

namespace cleave::schedule {

// One forward, one backward (PipeDream-Flush). The bubble of GPipe, far less memory: a device runs
// ahead of its backward by the number of devices after it, so at most
// min(devices - device, microbatches) activations are alive. On a graph it is the number of devices
// on the longest path to an end; where stages have different numbers of replicas, so many of these
// devices as there are for each device of the stage.
//
//   device 0 | F0 F1 F2 F3 B0 B1 B2 B3
//   device 1 | F0 F1 F2 B0 F3 B1 B2 B3
//   device 2 | F0 F1 B0 F2 B1 F3 B2 B3
//   device 3 | F0 B0 F1 B1 F2 B2 F3 B3
//
// Where messages take long, a device has nothing to do while its first gradient is on its way. With
// `early` microbatches more for each stage after it, it has: of 2 devices and early = 1,
//
//   device 0 | F0 F1 F2 B0 F3 B1 B2 B3
//   device 1 | F0 B0 F1 B1 F2 B2 F3 B3
Program one_f_one_b(const PipelineShape& shape) {
  Draft draft("1f1b", shape, Fold::Loop);
  for (DeviceId device{0}; device < shape.devices; ++device) {
    const int microbatches = draft.microbatches(device);
    const std::int64_t wanted = std::int64_t{draft.after(device)} * (1 + shape.early);
    const int ahead = static_cast<int>(std::min<std::int64_t>(wanted, microbatches));
    for (MicrobatchId mb{0}; mb < ahead; ++mb) draft.forward(device, 0, mb);
    for (MicrobatchId mb{ahead}; mb < microbatches; ++mb) {
      draft.forward(device, 0, mb);
      draft.backward(device, 0, MicrobatchId{mb - ahead});
    }
    for (MicrobatchId mb{microbatches - ahead}; mb < microbatches; ++mb)
      draft.backward(device, 0, mb);
  }
  return std::move(draft).finish();
}

}  // namespace cleave::schedule
