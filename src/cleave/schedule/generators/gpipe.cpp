#include "cleave/schedule/generators/generator.h"

namespace cleave::schedule {

// Fill, then drain (Huang et al., 2019). Simple, and every activation of the step is alive at the
// turn.
//
//   device 0 | F0 F1 F2 B0 B1 B2
//   device 1 | F0 F1 F2 B0 B1 B2
Program gpipe(const PipelineShape& shape) {
  Draft draft("gpipe", shape, Fold::Loop);
  for (DeviceId device{0}; device < shape.devices; ++device) {
    for (MicrobatchId mb{0}; mb < draft.microbatches(device); ++mb) draft.forward(device, 0, mb);
    for (MicrobatchId mb{0}; mb < draft.microbatches(device); ++mb) draft.backward(device, 0, mb);
  }
  return std::move(draft).finish();
}

}  // namespace cleave::schedule
