#include <utility>

#include "cleave/base/check.h"
#include "cleave/spec/layer_parts.h"
#include "cleave/spec/lora.h"

namespace cleave {

LayerSpec linear_in(const LayerSpec& adapted) {
  LayerSpec linear = adapted.as<LoraLinearAttributes>().linear;
  for (std::size_t i = 0; i < linear.parameters.size(); ++i)
    linear.parameters[i] = adapted.parameters[i];
  return linear;
}

namespace spec {
namespace {

/// out [m, n] = a [m, k] · b [k, n]; the strides are those of stored rows.
struct Product {
  std::int64_t m, n, k;
  Transpose a = Transpose::No;
  Transpose b = Transpose::No;
  std::int64_t a_stride, b_stride, out_stride;
};

MatmulSpec product_of(const Product& p, DType in, DType out, Write write) {
  return {.m = p.m,
          .n = p.n,
          .k = p.k,
          .in = in,
          .out = out,
          .a = p.a,
          .b = p.b,
          .a_stride = p.a_stride,
          .b_stride = p.b_stride,
          .out_stride = p.out_stride,
          .write = write};
}

/// The products of a matrix [outs, ins] between `tokens` rows of x and of y, which have these
/// strides: y += x · matrixᵀ, dx = or += dy · matrix, dmatrix = dyᵀ · x.
struct Between {
  std::int64_t x_stride, y_stride;
  Write forward = Write::Overwrite;
  Write input = Write::Overwrite;
};

void add_products(LayerSpec& layer, const Shape& matrix, const Between& between) {
  const std::int64_t tokens = layer.x.shape[0];
  const std::int64_t outs = matrix[0];
  const std::int64_t ins = matrix[1];
  const DType dtype = layer.x.dtype;
  layer.forward.push_back(product_of({.m = tokens,
                                      .n = outs,
                                      .k = ins,
                                      .b = Transpose::Yes,
                                      .a_stride = between.x_stride,
                                      .b_stride = ins,
                                      .out_stride = between.y_stride},
                                     dtype, dtype, between.forward));
  layer.backward_input.push_back(product_of({.m = tokens,
                                             .n = ins,
                                             .k = outs,
                                             .a_stride = between.y_stride,
                                             .b_stride = ins,
                                             .out_stride = between.x_stride},
                                            dtype, dtype, between.input));
  layer.backward_weight.push_back(product_of({.m = outs,
                                              .n = ins,
                                              .k = tokens,
                                              .a = Transpose::Yes,
                                              .a_stride = between.y_stride,
                                              .b_stride = between.x_stride,
                                              .out_stride = ins},
                                             dtype, DType::F32, Write::Overwrite));
}

/// `linear` as part of a layer whose x and y have more features.
LayerSpec widened(std::string kind, const LayerSpec& linear, std::int64_t x, std::int64_t y) {
  LayerSpec layer = linear;
  layer.kind = std::move(kind);
  layer.x.shape = linear.x.shape.with(1, x);
  layer.y.shape = linear.y.shape.with(1, y);
  layer.x_until = Until::Weight;
  layer.fixed_x_until = Until::Forward;
  layer.dy_until = Until::Weight;
  layer.forward[0].a_stride = layer.backward_input[0].out_stride = x;
  layer.forward[0].out_stride = layer.backward_input[0].a_stride = y;
  const bool transposed = linear.as<LinearAttributes>().weight == Transpose::Yes;
  for (MatmulSpec& weight : layer.backward_weight) {
    weight.a_stride = transposed ? y : x;
    weight.b_stride = transposed ? x : y;
  }
  return layer;
}

}  // namespace

LayerSpec lora_down(const std::string& name, const Flow& flow, const ParameterSpec& down,
                    float scale) {
  const std::int64_t ranks = down.shape[0];
  const std::int64_t in = down.shape[1];
  LayerSpec layer = token_layer("lora_down", name, flow, in, in + ranks);
  // W finds x in y, which the layer after it keeps anyway.
  layer.y_until = Until::Weight;
  layer.parameters = {down};
  layer.kept_by_input = {{"dranks", flow.dtype, {flow.tokens(), ranks}}};
  add_products(layer, down.shape,
               {.x_stride = in, .y_stride = in + ranks, .input = Write::Accumulate});
  layer.backward_input[0].a_stride = layer.backward_weight[0].a_stride = ranks;
  layer.backward_weight[0].b_stride = in + ranks;
  layer.attributes = LoraDownAttributes{scale};
  return layer;
}

LayerSpec lora_linear(const LayerSpec& linear, const std::vector<LoraTarget>& targets,
                      const std::vector<ParameterSpec>& ups) {
  std::int64_t wide = linear.x.shape[1];
  for (const ParameterSpec& up : ups) wide += up.shape[1];
  const std::int64_t out = linear.y.shape[1];
  LayerSpec layer = widened("lora_linear", linear, wide, out);
  for (const ParameterSpec& up : ups) {
    layer.parameters.push_back(up);
    add_products(layer, up.shape,
                 {.x_stride = wide, .y_stride = out, .forward = Write::Accumulate});
  }
  layer.attributes = LoraLinearAttributes{linear, targets};
  return layer;
}

LayerSpec lora_row(const LayerSpec& linear, const ParameterSpec& down) {
  CLEAVE_CHECK(linear.as<LinearAttributes>().bias == Bias::None, linear.name, " has a bias");
  const std::int64_t in = linear.x.shape[1];
  const std::int64_t wide = linear.y.shape[1] + down.shape[0];
  LayerSpec layer = widened("lora_row", linear, in, wide);
  layer.parameters.push_back(down);
  add_products(layer, down.shape, {.x_stride = in, .y_stride = wide, .input = Write::Accumulate});
  layer.attributes = LoraLinearAttributes{linear, {}};
  return layer;
}

LayerSpec lora_up(const std::string& name, const Flow& flow,
                  const std::vector<ParameterSpec>& parameters, float scale) {
  const std::int64_t out = parameters[0].shape[0];
  const std::int64_t rank = parameters[0].shape[1];
  LayerSpec layer = token_layer("lora_up", name, flow, out + rank, out);
  layer.dy_until = Until::Weight;
  layer.parameters = parameters;
  layer.kept_by_forward = {{{"ranks", flow.dtype, {flow.tokens(), rank}}, Until::Weight}};
  add_products(layer, parameters[0].shape,
               {.x_stride = rank, .y_stride = out, .forward = Write::Accumulate});
  layer.backward_input[0].out_stride = out + rank;
  layer.attributes = LoraUpAttributes{scale, parameters.size() > 1 ? Bias::Add : Bias::None};
  return layer;
}

}  // namespace spec
}  // namespace cleave
