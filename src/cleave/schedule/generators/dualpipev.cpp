#include <algorithm>
#include <deque>

#include "cleave/schedule/generators/lane.h"

namespace cleave::schedule {
namespace {

/// The tail, when no forwards are left: whole backwards first, then I alone, so that the chain to
/// the first stage is not held up by W. Returns the chunks of the W that are owed, oldest first.
std::deque<int> drain(Lane& lane, int rounds) {
  std::deque<int> owed;
  for (int k = 0; k < 2 * rounds; ++k) {
    const int chunk = 1 - k % 2;
    if (k < rounds) {
      lane.b(chunk);
    } else {
      lane.i(chunk);
      owed.push_back(chunk);
    }
  }
  return owed;
}

}  // namespace

// DualPipeV (DeepSeek, 2025; the V-shaped half of DualPipe): in the steady phase each F stands next
// to the B of another microbatch on the other chunk, so that a device can hide the communication
// inside one behind the computation of the other. The pairs are consecutive instructions.
//
//   device 0 | 0F0 0F1 0F2 3F0 3I0 3W0 3F1 0F3 3B1 3F2 0B0 3B2 3F3 0B1 3B3 0I2 0W2 0I3 0W3
//   device 1 | 1F0 2F0 1F1 2F1 1F2 2B0 2F2 1B0 1F3 2B1 2F3 1B1 2B2 1B2 2I3 1I3 2W3 1W3
//
// The pattern needs 2 devices microbatches; with fewer it is the same schedule without those that
// do not exist.
Program dualpipev(const PipelineShape& shape) {
  Draft draft("dualpipev", shape, Fold::V);
  const int devices = shape.devices;
  const int microbatches = std::max(shape.microbatches, 2 * devices);
  for (DeviceId device{0}; device < devices; ++device) {
    Lane lane{draft, device};
    const int below = devices - 1 - device;
    for (int k = 0; k < 2 * below; ++k) lane.f(0);
    for (int k = 0; k <= device; ++k) {
      lane.f(0);
      lane.f(1);
    }
    for (int k = 0; k < below; ++k) {
      lane.i(1);
      lane.w(1);
      lane.f(1);
    }
    for (int k = 0; k < microbatches - 2 * devices + device + 1; ++k) {
      lane.f(0);
      lane.b(1);
      lane.f(1);
      lane.b(0);
    }
    for (int k = 0; k < below; ++k) {
      lane.b(1);
      lane.f(1);
      lane.b(0);
    }
    std::deque<int> owed = drain(lane, device + 1);
    for (int k = 0; k < below; ++k) {
      lane.w(owed.front());
      owed.pop_front();
      lane.i(0);
      owed.push_back(0);
    }
    for (int chunk : owed) lane.w(chunk);
  }
  return std::move(draft).finish();
}

}  // namespace cleave::schedule
