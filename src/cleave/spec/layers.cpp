#include "cleave/spec/layers.h"

#include <algorithm>
#include <utility>

#include "cleave/base/check.h"
#include "cleave/spec/layer_parts.h"

namespace cleave::spec {
namespace {

std::vector<MatmulSpec> attention_products(const AttentionShape& shape, DType dtype,
                                           AttentionPass pass) {
  std::vector<MatmulSpec> products;
  for (const CountedMatmul& counted : attention_matmuls(shape, dtype, pass)) {
    products.insert(products.end(), counted.count, counted.spec);
  }
  return products;
}

LayerSpec gated(std::string kind, const std::string& name, const Flow& flow,
                std::int64_t features) {
  LayerSpec spec = token_layer(std::move(kind), name, flow, 2 * features, features);
  spec.x_until = Until::Input;
  spec.cheap = true;
  return spec;
}

Shape stored_weight(const LinearShape& shape) {
  return shape.weight == Transpose::Yes ? Shape{shape.out, shape.in} : Shape{shape.in, shape.out};
}

void add_linear_parameters(LayerSpec& spec, const LinearShape& shape) {
  ParameterSpec weight =
      matrix_parameter(spec.name + ".weight", stored_weight(shape), shape.deviation);
  if (!shape.pieces.empty()) weight.pieces = shape.pieces;
  const int out_dim = shape.weight == Transpose::Yes ? 0 : 1;
  weight.cut = {.rule = shape.rule,
                .dim = shape.rule == CutRule::Column ? out_dim : 1 - out_dim,
                .spans = shape.spans};
  weight.hidden = true;
  spec.parameters.push_back(std::move(weight));
  if (shape.bias != Bias::Add) return;
  spec.parameters.push_back(vector_parameter(spec.name + ".bias", shape.out, 0));
  if (!shape.bias_pieces.empty()) spec.parameters.back().pieces = shape.bias_pieces;
  if (shape.rule == CutRule::Column)
    spec.parameters.back().cut = {.rule = CutRule::Column, .spans = shape.spans};
}

void add_linear_products(LayerSpec& spec, const Flow& flow, const LinearShape& shape) {
  const std::int64_t tokens = flow.tokens();
  const bool transposed = shape.weight == Transpose::Yes;
  const Shape stored = stored_weight(shape);
  const std::int64_t weight_stride = stored[1];
  spec.forward = {{.m = tokens,
                   .n = shape.out,
                   .k = shape.in,
                   .in = flow.dtype,
                   .out = flow.dtype,
                   .b = shape.weight,
                   .a_stride = shape.in,
                   .b_stride = weight_stride,
                   .out_stride = shape.out,
                   .bias = shape.bias}};
  spec.backward_input = {{.m = tokens,
                          .n = shape.in,
                          .k = shape.out,
                          .in = flow.dtype,
                          .out = flow.dtype,
                          .b = transposed ? Transpose::No : Transpose::Yes,
                          .a_stride = shape.out,
                          .b_stride = weight_stride,
                          .out_stride = shape.in}};
  // dw = xᵀ · dy, or dyᵀ · x where the weight is stored transposed.
  spec.backward_weight = {{.m = stored[0],
                           .n = stored[1],
                           .k = tokens,
                           .in = flow.dtype,
                           .out = DType::F32,
                           .a = Transpose::Yes,
                           .a_stride = stored[0],
                           .b_stride = stored[1],
                           .out_stride = stored[1]}};
}

/// Rows of logits start on cache lines whatever the vocabulary: 50257 is odd.
std::int64_t logits_stride(const Flow& flow, std::int64_t columns) {
  return aligned(columns * size_of(flow.dtype)) / size_of(flow.dtype);
}

/// The products of one block of the vocabulary, which begins at entry `first`.
void add_loss_products(LayerSpec& spec, const Flow& flow, const LossShape& shape,
                       std::int64_t first, std::int64_t block) {
  const std::int64_t tokens = flow.tokens();
  const std::int64_t stride = logits_stride(flow, block);
  const std::int64_t columns = std::min(block, shape.vocabulary - first);
  const MatmulSpec logits_product{.m = tokens,
                                  .n = columns,
                                  .k = shape.features,
                                  .in = flow.dtype,
                                  .out = flow.dtype,
                                  .b = Transpose::Yes,
                                  .a_stride = shape.features,
                                  .b_stride = shape.features,
                                  .out_stride = stride};
  spec.forward.push_back(logits_product);
  if (shape.blocks > 1) {  // logits are not kept: both backward passes compute them again
    spec.backward_input.push_back(logits_product);
    spec.backward_weight.push_back(logits_product);
  }
  spec.backward_input.push_back({.m = tokens,
                                 .n = shape.features,
                                 .k = columns,
                                 .in = flow.dtype,
                                 .out = flow.dtype,
                                 .a_stride = stride,
                                 .b_stride = shape.features,
                                 .out_stride = shape.features,
                                 .write = first == 0 ? Write::Overwrite : Write::Accumulate});
  spec.backward_weight.push_back({.m = columns,
                                  .n = shape.features,
                                  .k = tokens,
                                  .in = flow.dtype,
                                  .out = DType::F32,
                                  .a = Transpose::Yes,
                                  .a_stride = stride,
                                  .b_stride = shape.features,
                                  .out_stride = shape.features});
}

}  // namespace

LayerSpec linear(const std::string& name, const Flow& flow, const LinearShape& shape) {
  LayerSpec spec = token_layer("linear", name, flow, shape.in, shape.out);
  spec.x_until = Until::Weight;
  spec.fixed_x_until = Until::Forward;
  spec.dy_until = Until::Weight;
  add_linear_parameters(spec, shape);
  add_linear_products(spec, flow, shape);
  spec.attributes = LinearAttributes{shape.weight, shape.bias};
  return spec;
}

LayerSpec attention(const std::string& name, const Flow& flow,
                    const AttentionAttributes& attributes) {
  const AttentionShape& shape = attributes.shape;
  check(shape);
  const std::int64_t wide = (shape.heads + 2 * shape.kv_heads) * shape.head_dim;
  LayerSpec spec = token_layer("attention", name, flow, wide, shape.heads * shape.head_dim);
  spec.attributes = attributes;
  const std::int64_t positions = std::max(shape.sequence, attributes.cache);
  const Rope& rope = attributes.rope;
  if (const std::int64_t pairs = std::ssize(rope.frequencies); pairs > 0) {
    require(2 * pairs <= shape.head_dim, name, " turns ", pairs, " pairs of a head of ",
            shape.head_dim, "; a head has half as many pairs as elements");
    spec.constants = {{rope.tables + ".cos", DType::F32, {positions, pairs}},
                      {rope.tables + ".sin", DType::F32, {positions, pairs}}};
  }
  if (attributes.cache > 0) {
    require(shape.mask != AttentionMask::Full, name,
            " sees tokens that come later, so its model cannot generate one after another");
    const Shape cached{attributes.cache, shape.kv_heads, shape.head_dim};
    spec.caches = {{"keys", flow.dtype, cached}, {"values", flow.dtype, cached}};
    return spec;
  }
  spec.x_until = Until::Input;
  spec.y_until = Until::Input;
  spec.kept_by_forward = {
      {{"lse", DType::F32, {shape.sequences, shape.heads, shape.sequence}}, Until::Input}};
  if (shape.documents)
    spec.reads = {{{kDocuments, DType::I32, {flow.tokens()}}, kDocuments, Until::Input}};
  spec.forward = attention_products(shape, flow.dtype, AttentionPass::Forward);
  spec.backward_input = attention_products(shape, flow.dtype, AttentionPass::Backward);
  return spec;
}

LayerSpec gelu(const std::string& name, const Flow& flow, std::int64_t features) {
  LayerSpec spec = token_layer("gelu", name, flow, features, features);
  spec.x_until = Until::Input;
  spec.cheap = true;
  return spec;
}

LayerSpec swiglu(const std::string& name, const Flow& flow, std::int64_t features) {
  return gated("swiglu", name, flow, features);
}

LayerSpec geglu(const std::string& name, const Flow& flow, std::int64_t features) {
  return gated("geglu", name, flow, features);
}

LayerSpec residual(const std::string& name, const Flow& flow, std::int64_t features, int skip) {
  LayerSpec spec = token_layer("residual", name, flow, features, features);
  spec.dx_is_dy = true;
  spec.skip = skip;
  return spec;
}

LayerSpec embedding(const std::string& name, const Flow& flow, const EmbeddingShape& shape) {
  LayerSpec spec = layer_between("embedding", name, {"tokens", DType::I32, {flow.tokens()}},
                                 {"y", flow.dtype, {flow.tokens(), shape.features}});
  spec.x_until = Until::Weight;
  spec.fixed_x_until = Until::Forward;
  spec.dy_until = Until::Weight;
  spec.parameters.push_back(
      matrix_parameter(shape.token_name, {shape.vocabulary, shape.features}, 0.02f));
  spec.parameters.back().cut.rule = CutRule::Vocabulary;
  if (shape.context > 0) {
    spec.parameters.push_back(
        matrix_parameter(shape.position_name, {shape.context, shape.features}, 0.02f));
  }
  spec.attributes =
      EmbeddingAttributes{.sequence = flow.sequence, .scale = shape.scale, .still = shape.still};
  return spec;
}

LayerSpec loss(const std::string& name, const Flow& flow, const LossShape& shape) {
  const std::int64_t tokens = flow.tokens();
  LayerSpec spec = layer_between("loss", name, {"x", flow.dtype, {tokens, shape.features}},
                                 {"losses", DType::F32, {tokens}});
  spec.x_until = Until::Weight;
  spec.fixed_x_until = shape.blocks == 1 ? Until::Forward : Until::Input;
  spec.parameters.push_back(
      matrix_parameter(shape.weight_name, {shape.vocabulary, shape.features}, 0.02f));
  spec.parameters.back().cut.rule = CutRule::Vocabulary;
  if (!shape.tied_to.empty()) {
    spec.parameters.back().tied_to = shape.tied_to;
    spec.parameters.back().pieces[0].name = shape.tied_to;
  }

  const std::int64_t block = (shape.vocabulary + shape.blocks - 1) / shape.blocks;
  const TensorSpec logits{"logits", flow.dtype, {tokens, logits_stride(flow, block)}};
  spec.reads = {{{"targets", DType::I32, {tokens}}, "targets", Until::Weight}};
  spec.kept_by_forward = {{{"lse", DType::F32, {tokens}}, Until::Weight}};
  if (shape.blocks == 1) {
    spec.kept_by_forward.push_back({logits, Until::Weight});
  } else {
    spec.scratch = logits.bytes() + 2 * aligned(tokens * size_of(DType::F32));
  }

  for (std::int64_t first = 0; first < shape.vocabulary; first += block)
    add_loss_products(spec, flow, shape, first, block);
  spec.attributes = LossAttributes{shape.vocabulary, shape.blocks};
  return spec;
}

}  // namespace cleave::spec
