#include "cleave/layers/embedding.h"

#include "cleave/ops/elementwise.h"
#include "cleave/ops/embedding.h"
#include "cleave/tensor/bf16.h"

namespace cleave {

ops::VocabRows Embedding::rows() const {
  const auto& attributes = spec().as<EmbeddingAttributes>();
  // The scale is a number of the model's format, as it is where Hugging Face multiplies by it.
  const bool narrow = spec().y.dtype == DType::BF16;
  const float scale = narrow ? to_float(to_bf16(attributes.scale)) : attributes.scale;
  return {attributes.first, attributes.vocabulary, scale, attributes.still};
}

void Embedding::forward(ops::Compute& compute, const LayerCall& call) {
  ops::embedding(compute, {.ids = call.x,
                           .table = parameter(0).value,
                           .rows = rows(),
                           .positions = has_positions() ? parameter(1).value : View(),
                           .sequence = spec().as<EmbeddingAttributes>().sequence,
                           .first_position = call.position,
                           .y = call.y});
}

void Embedding::backward_input(ops::Compute&, const LayerCall&) {}

void Embedding::backward_weight(ops::Compute& compute, const LayerCall& call) {
  const auto begin = [&](View gradient) {
    if (call.gradient == Write::Overwrite) ops::fill(compute, 0, gradient);
    return gradient;
  };
  if (is_trained(0))
    ops::embedding_backward(compute, call.x, call.dy, begin(gradient(0, call)), rows());
  if (!has_positions() || !is_trained(1)) return;
  ops::position_backward(compute, call.dy, spec().as<EmbeddingAttributes>().sequence,
                         begin(gradient(1, call)));
}

}  // namespace cleave
