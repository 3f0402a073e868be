#include "cleave/spec/window_layers.h"

#include <cmath>

#include "cleave/spec/layer_parts.h"

namespace cleave::spec {
namespace {

/// The products of a convolution: rows of all places, once each way.
void add_products(LayerSpec& spec, std::int64_t rows, std::int64_t in, std::int64_t out) {
  const DType dtype = spec.x.dtype;
  spec.forward = {{.m = rows,
                   .n = out,
                   .k = in,
                   .in = dtype,
                   .out = dtype,
                   .b = Transpose::Yes,
                   .a_stride = in,
                   .b_stride = in,
                   .out_stride = out,
                   .bias = Bias::Add}};
  spec.backward_input = {{.m = rows,
                          .n = in,
                          .k = out,
                          .in = dtype,
                          .out = dtype,
                          .a_stride = out,
                          .b_stride = in,
                          .out_stride = in}};
  spec.backward_weight = {{.m = out,
                           .n = in,
                           .k = rows,
                           .in = dtype,
                           .out = DType::F32,
                           .a = Transpose::Yes,
                           .a_stride = out,
                           .b_stride = in,
                           .out_stride = in}};
}

}  // namespace

LayerSpec convolution(const std::string& name, const Flow& flow, const WindowShape& window,
                      std::int64_t out) {
  const std::int64_t rows = flow.sequences * window.places();
  const std::int64_t in = window.channels * window.size * window.size;
  LayerSpec spec =
      sequence_layer("convolution", name, flow, window.values(), window.places() * out);
  spec.x_until = Until::Weight;
  spec.fixed_x_until = Until::Forward;
  spec.dy_until = Until::Weight;
  // As many as a row has values: the variance of what comes out is that of what goes in.
  const float deviation = 1.0f / std::sqrt(static_cast<float>(in));
  spec.parameters = {matrix_parameter(name + ".weight", {out, in}, deviation),
                     vector_parameter(name + ".bias", out, 0)};
  add_products(spec, rows, in, out);
  spec.scratch = aligned(rows * in * size_of(flow.dtype));
  spec.attributes = WindowAttributes{window};
  return spec;
}

LayerSpec max_pool(const std::string& name, const Flow& flow, const WindowShape& window) {
  LayerSpec spec =
      sequence_layer("max_pool", name, flow, window.values(), window.places() * window.channels);
  spec.x_until = Until::Input;
  spec.attributes = WindowAttributes{window};
  return spec;
}

LayerSpec relu(const std::string& name, const Flow& flow, std::int64_t features) {
  LayerSpec spec = sequence_layer("relu", name, flow, features, features);
  spec.x_until = Until::Input;
  spec.cheap = true;
  return spec;
}

LayerSpec channels_first(const std::string& name, const Flow& flow, std::int64_t features,
                         std::int64_t channels) {
  LayerSpec spec = sequence_layer("channels_first", name, flow, features, features);
  spec.attributes = ChannelAttributes{channels};
  return spec;
}

}  // namespace cleave::spec
