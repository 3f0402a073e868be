#include "cleave/spec/layer_spec.h"

namespace cleave {

std::int64_t parameter_count(const LayerSpec& layer) {
  std::int64_t count = 0;
  for (const ParameterSpec& parameter : layer.parameters) {
    if (parameter.tied_to.empty()) count += parameter.elements();
  }
  return count;
}

std::int64_t parameter_count(const SegmentSpec& segment) {
  std::int64_t count = 0;
  for (const LayerSpec& layer : segment.layers) count += parameter_count(layer);
  return count;
}

std::int64_t flops(const LayerSpec& layer) {
  std::int64_t count = 0;
  for (const auto* pass : {&layer.forward, &layer.backward_input, &layer.backward_weight}) {
    for (const MatmulSpec& product : *pass) count += product.flops();
  }
  return count;
}

std::int64_t flops(const SegmentSpec& segment) {
  std::int64_t count = 0;
  for (const LayerSpec& layer : segment.layers) count += flops(layer);
  return count;
}

}  // namespace cleave
