#include "cleave/layers/layer.h"

#include <algorithm>

#include "cleave/layers/activation.h"
#include "cleave/layers/attention.h"
#include "cleave/layers/embedding.h"
#include "cleave/layers/linear.h"
#include "cleave/layers/loss.h"
#include "cleave/layers/norm.h"
#include "cleave/layers/residual.h"
#include "cleave/ops/matmul.h"

namespace cleave {

void Layer::backward_weight(ops::Compute&, const LayerCall&) {
  CLEAVE_CHECK(spec_.parameters.empty(), spec_.name, " has parameters but no backward_weight");
}

void Layer::backward(ops::Compute& compute, const LayerCall& call) {
  backward_input(compute, call);
  if (!spec_.parameters.empty()) backward_weight(compute, call);
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

std::unique_ptr<Layer> make_layer(const LayerSpec& spec) {
  if (spec.kind == "linear") return std::make_unique<Linear>(spec);
  if (spec.kind == "layernorm") return std::make_unique<Layernorm>(spec);
  if (spec.kind == "rmsnorm") return std::make_unique<Rmsnorm>(spec);
  if (spec.kind == "attention") return std::make_unique<Attention>(spec);
  if (spec.kind == "gelu") return std::make_unique<Gelu>(spec);
  if (spec.kind == "swiglu") return std::make_unique<Swiglu>(spec);
  if (spec.kind == "residual") return std::make_unique<Residual>(spec);
  if (spec.kind == "embedding") return std::make_unique<Embedding>(spec);
  if (spec.kind == "loss") return std::make_unique<Loss>(spec);
  throw UserError("layer " + spec.name + " is of kind \"" + spec.kind +
                  "\", which cleave does not have; pass a layer of your own for it");
}

}  // namespace cleave
