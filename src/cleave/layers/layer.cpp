#include "cleave/layers/layer.h"

#include <algorithm>

#include "cleave/ops/matmul.h"

namespace cleave {

void Layer::backward_weight(ops::Compute&, const LayerCall&) {
  CLEAVE_CHECK(spec_.parameters.empty(), spec_.name, " has parameters but no backward_weight");
}

void Layer::backward(ops::Compute& compute, const LayerCall& call) {
  backward_input(compute, call);
  if (trains(spec_)) backward_weight(compute, call);
}

std::int64_t Layer::scratch_bytes(ops::Compute& compute) const {
  return std::max(spec_.scratch, product_scratch_bytes(compute));
}

std::int64_t Layer::product_scratch_bytes(ops::Compute& compute) const {
  std::int64_t most = 0;
  for (const auto* pass : {&spec_.forward, &spec_.backward_input, &spec_.backward_weight}) {
    for (MatmulSpec product : *pass) {
      for (Write write : {Write::Overwrite, Write::Accumulate}) {
        product.write = write;
        most = std::max(most, ops::matmul_scratch_bytes(compute, product));
      }
    }
  }
  return most;
}

}  // namespace cleave
