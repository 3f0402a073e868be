#include "cleave/spec/layer_spec.h"

#include <algorithm>

namespace cleave {

bool trains(const LayerSpec& layer) {
  return std::ranges::any_of(layer.parameters, &ParameterSpec::trainable);
}

bool trains(const SegmentSpec& segment) {
  return std::ranges::any_of(segment.layers, [](const LayerSpec& layer) { return trains(layer); });
}

void leave_out_weight_pass(LayerSpec& layer) {
  if (layer.parameters.empty() || trains(layer)) return;
  layer.x_until = std::min(layer.x_until, layer.fixed_x_until);
  layer.y_until = std::min(layer.y_until, Until::Input);
  layer.dy_until = Until::Input;
  for (KeptTensor& kept : layer.kept_by_forward) kept.until = std::min(kept.until, Until::Input);
  for (ReadTensor& read : layer.reads) read.until = std::min(read.until, Until::Input);
  layer.sums.clear();
  layer.backward_weight.clear();
}

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
