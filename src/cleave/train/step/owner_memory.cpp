#include "cleave/train/step/owner_memory.h"

#include <algorithm>
#include <string>

#include "cleave/base/check.h"
#include "cleave/base/units.h"
#include "cleave/engine/compile/step_stages.h"
#include "cleave/spec/packed_rows.h"

namespace cleave::train {
namespace {

struct SegmentBytes {
  std::string name;
  std::int64_t bytes = 0;
};

/// Weights, and where they learn their gradients and what the optimizer keeps beside them.
std::int64_t lasting_bytes(const SegmentSpec& segment, DType dtype) {
  std::int64_t bytes = 0;
  for (const LayerSpec& layer : segment.layers) {
    for (const ParameterSpec& parameter : layer.parameters) {
      bytes += value_bytes(parameter, dtype);
      if (!parameter.trainable) continue;
      const bool master = dtype != DType::F32;
      const auto copies = static_cast<std::int64_t>(1 + parameter.slots.size() + (master ? 1 : 0));
      bytes += parameter.elements() * copies * size_of(DType::F32);
    }
  }
  return bytes;
}

SegmentBytes largest_on(const engine::CompiledStep& step, int device) {
  SegmentBytes largest;
  for (int s = 0; s < step.program.stages; ++s) {
    if (!step.holds(device, s)) continue;
    for (const SegmentSpec& segment : step.stages[static_cast<std::size_t>(s)])
      if (const std::int64_t bytes = lasting_bytes(segment, step.model.dtype);
          bytes > largest.bytes)
        largest = {segment.name, bytes};
  }
  return largest;
}

}  // namespace

void check_owner_memory(const Config& config, const engine::CompiledStep& step) {
  const std::vector<int> owners = device_owners(config);
  for (int device = 0; device < std::ssize(owners); ++device) {
    const edge::Owner& owner =
        config.edge.owners[static_cast<std::size_t>(owners[static_cast<std::size_t>(device)])];
    const std::int64_t planned = step.planned_on(device);
    if (owner.memory == 0 || planned <= owner.memory) continue;
    const SegmentBytes largest = largest_on(step, device);
    const bool client = owner.role == edge::Role::Client;
    throw DoesNotFit(detail::concat(
        "owner ", owner.name, " has memory for ", format_bytes(owner.memory), " (", owner.memory,
        " bytes), and its part needs ", format_bytes(planned), " (", planned,
        " bytes), the largest share for ", largest.name, " (", largest.bytes,
        client ? " bytes); give it fewer layers, a smaller train.microbatch, or more memory"
               : " bytes); give it more devices, a smaller train.microbatch, or more memory"));
  }
}

}  // namespace cleave::train
