#include "cleave/engine/compile/accelerated.h"

#include <algorithm>
#include <set>

#include "cleave/base/check.h"

namespace cleave::engine {
namespace {

void check_layers(const CompiledStep& step, const CompileOptions& options, int device) {
  for (int s = 0; s < step.program.stages; ++s) {
    if (!step.holds(device, s)) continue;
    for (const SegmentSpec& segment : step.stages[s]) {
      for (const LayerSpec& layer : segment.layers) {
        const LayerKind* kind = options.kinds.find(layer.kind);
        require(kind == nullptr || kind->on_accelerators, "device ", device, " is \"",
                step.kind_of(device), "\", but layer ", layer.name, " is of kind \"", layer.kind,
                "\", which has no kernels for accelerators; set devices.kind to \"cpu\" for that "
                "device");
      }
    }
  }
}

}  // namespace

void check_accelerated(const CompiledStep& step, const CompileOptions& options) {
  for (int device = 0; device < step.devices(); ++device) {
    if (step.kind_of(device) == "cpu") continue;
    require(options.purpose != Purpose::Train || options.optimizer->on_accelerators, "device ",
            device, " is \"", step.kind_of(device), "\", but train.optimizer ",
            options.optimizer->name,
            " has no kernels for accelerators; set devices.kind to \"cpu\", or use another "
            "optimizer");
    check_layers(step, options, device);
  }
}

/// Where programs leave stages out, replicas run the same list: all of them do, or none.
std::vector<int> places_through_host(const CompiledStep& step, const CompileOptions& options) {
  std::set<int> places;
  for (int device = 0; device < step.devices(); ++device)
    if (step.kind_of(device) != "cpu") places.insert(step.place_of(device));
  if (options.leaves_out() && !places.empty())
    for (int place = 0; place < step.mesh.places(); ++place) places.insert(place);
  return {places.begin(), places.end()};
}

}  // namespace cleave::engine
