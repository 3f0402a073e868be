#include "cleave/schedule/generators/zero_bubble.h"

#include <algorithm>

namespace cleave::schedule {

// Gradients travel up the pipeline through I alone, so they arrive earlier than in 1F1B by one W
// per stage; the W that the lower devices owe fill the time in which they would wait at the end.
Program delayed_weights(std::string_view schedule, const PipelineShape& shape, int reach) {
  Draft draft(schedule, shape, Fold::Loop);
  for (DeviceId device{0}; device < shape.devices; ++device) {
    const int microbatches = draft.microbatches(device);
    const int ahead = std::min(reach * draft.after(device), microbatches);
    const int owed = std::min(reach * draft.before(device), microbatches);
    for (MicrobatchId mb{0}; mb < ahead; ++mb) draft.forward(device, 0, mb);
    for (MicrobatchId mb{0}; mb < microbatches; ++mb) {
      if (mb + ahead < microbatches) draft.forward(device, 0, MicrobatchId{mb + ahead});
      draft.input(device, 0, mb);
      if (mb >= owed) draft.weight(device, 0, MicrobatchId{mb - owed});
    }
    for (MicrobatchId mb{microbatches - owed}; mb < microbatches; ++mb) draft.weight(device, 0, mb);
  }
  return std::move(draft).finish();
}

}  // namespace cleave::schedule
