#include <algorithm>

#include "cleave/schedule/generators/lane.h"

namespace cleave::schedule {

// ZB-V (Qi et al., 2024): two stages per device, the second on the way back up, so that the device
// which starts a microbatch also finishes it. With F = I = W and 2 devices - 1 microbatches or more
// no device ever waits between its first and last instruction, with the memory of 1F1B: at most
// `devices` microbatches, on every device.
//
//   device 0 | 0F0 0F1 0F2 3F0 3I0 3W0 3F1 3I1 3W1 0I0 0W0 3F2 3I2 3W2 0I1 0W1 0I2 0W2
//   device 1 | 1F0 2F0 1F1 2F1 2I0 2W0 1F2 1I0 1W0 2F2 2I1 2W1 1I1 2I2 1I2 1W1 2W2 1W2
//
// With fewer microbatches it is the same schedule without those that do not exist.
Program zbv(const PipelineShape& shape) {
  Draft draft("zbv", shape, Fold::V);
  const int devices = shape.devices;
  const int microbatches = std::max(shape.microbatches, 2 * devices - 1);
  for (DeviceId device{0}; device < devices; ++device) {
    Lane lane{draft, device};
    const int below = devices - device;
    for (int k = 0; k < 2 * below - 1; ++k) lane.f(0);
    for (int k = 0; k < device; ++k) {
      lane.f(1);
      lane.f(0);
    }
    for (int k = 0; k < below; ++k) {
      lane.f(1);
      lane.i(1);
      lane.w(1);
    }

    while (lane.forwards[1] < microbatches) {
      if (lane.forwards[0] < microbatches) lane.f(0);
      lane.i(0);
      lane.w(0);
      lane.f(1);
      lane.i(1);
      lane.w(1);
    }

    for (int k = 0; k < device; ++k) {
      lane.i(0);
      lane.i(1);
    }
    for (int k = 0; k < below; ++k) {
      lane.i(0);
      lane.w(0);
    }
    while (lane.weights[1] < microbatches) lane.w(1);
    while (lane.weights[0] < microbatches) lane.w(0);
  }
  return std::move(draft).finish();
}

}  // namespace cleave::schedule
