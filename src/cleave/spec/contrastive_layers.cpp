#include "cleave/spec/contrastive_layers.h"

#include <utility>

#include "cleave/spec/image_layers.h"
#include "cleave/spec/layer_parts.h"

namespace cleave::spec {
namespace {

/// One row of each sequence.
LayerSpec one_row(std::string kind, const std::string& name, const Flow& flow,
                  std::int64_t features) {
  LayerSpec spec =
      layer_between(std::move(kind), name, {"x", flow.dtype, {flow.tokens(), features}},
                    {"y", flow.dtype, {flow.sequences, features}});
  spec.attributes = SequenceAttributes{flow.sequence};
  return spec;
}

/// Rows [0, size) of a tensor that checkpoints have three times as long.
ParameterSpec first_third(const std::string& name, Shape shape, Init init) {
  return {.name = name + ".query",
          .shape = shape,
          .init = init,
          .decay = shape.rank() > 1 ? Decay::Yes : Decay::No,
          .pieces = {{.name = name, .extent = shape[0], .whole = 3 * shape[0]}}};
}

ParameterSpec number(const std::string& name, float value) {
  return {.name = name, .shape = {1}, .init = {value, 0}, .pieces = {{name, 0, 1}}};
}

/// What both losses have in common.
LayerSpec pair_loss(std::string kind, const std::string& name, const Flow& flow,
                    const PairShape& shape) {
  const std::int64_t rows = flow.sequences;
  const std::int64_t width = 2 * shape.features;
  LayerSpec spec = layer_between(std::move(kind), name, {"x", DType::F32, {rows, width}},
                                 {"losses", DType::F32, {rows}});
  spec.collected = {{"features", DType::F32, {shape.samples, width}}};
  const MatmulSpec logits{.m = rows,
                          .n = shape.samples,
                          .k = shape.features,
                          .b = Transpose::Yes,
                          .a_stride = width,
                          .b_stride = width,
                          .out_stride = shape.samples};
  const MatmulSpec gradient{.m = rows,
                            .n = shape.features,
                            .k = shape.samples,
                            .a_stride = shape.samples,
                            .b_stride = width,
                            .out_stride = width};
  spec.forward = {logits};
  spec.backward_input = {logits, gradient, logits, gradient};
  spec.scratch =
      aligned(rows * shape.samples * size_of(DType::F32)) + aligned(rows * size_of(DType::F32));
  return spec;
}

}  // namespace

LayerSpec unit_rows(const std::string& name, const Flow& flow, std::int64_t features) {
  const Shape rows{flow.tokens(), features};
  LayerSpec spec =
      layer_between("unit_rows", name, {"x", flow.dtype, rows}, {"y", DType::F32, rows});
  spec.x_until = Until::Input;
  spec.kept_by_forward = {{{"inverse", DType::F32, {flow.tokens()}}, Until::Input}};
  return spec;
}

LayerSpec last_row(const std::string& name, const Flow& flow, std::int64_t features) {
  return one_row("last_row", name, flow, features);
}

LayerSpec picked_row(const std::string& name, const Flow& flow, std::int64_t features) {
  LayerSpec spec = one_row("picked_row", name, flow, features);
  spec.reads = {{{"ends", DType::I32, {flow.sequences}}, "ends", Until::Input}};
  return spec;
}

LayerSpec attention_pool(const std::string& name, const Flow& flow, const PoolLayerShape& shape) {
  const std::int64_t features = shape.features;
  LayerSpec spec =
      layer_between("attention_pool", name, {"x", flow.dtype, {flow.tokens(), 2 * features}},
                    {"y", flow.dtype, {flow.sequences, features}});
  spec.x_until = Until::Input;
  const Init random{0, 0.02f};
  spec.parameters = {{.name = shape.probe_name,
                      .shape = {1, 1, features},
                      .init = random,
                      .pieces = {{shape.probe_name, 0, 1}}},
                     first_third(shape.in_proj + "weight", {features, features}, random),
                     first_third(shape.in_proj + "bias", {features}, {})};
  spec.parameters[1].hidden = true;
  // W must not read values, so F keeps the probe for it.
  spec.kept_by_forward = {
      {{"query", DType::F32, {1, features}}, Until::Input},
      {{"weights", DType::F32, {flow.sequences, shape.heads, flow.sequence}}, Until::Input},
      {{"probe", flow.dtype, {1, features}}, Until::Weight}};
  spec.kept_by_input = {{"dquery", DType::F32, {1, features}},
                        {"dquery rounded", flow.dtype, {1, features}},
                        {"dprobe", DType::F32, {1, features}}};
  const MatmulSpec query{.m = 1,
                         .n = features,
                         .k = features,
                         .in = flow.dtype,
                         .b = Transpose::Yes,
                         .a_stride = features,
                         .b_stride = features,
                         .out_stride = features,
                         .bias = Bias::Add,
                         .bias_dtype = flow.dtype};
  MatmulSpec back = query;
  back.b = Transpose::No;
  back.bias = Bias::None;
  back.bias_dtype = DType::F32;
  const MatmulSpec outer{.m = features,
                         .n = features,
                         .k = 1,
                         .in = flow.dtype,
                         .a = Transpose::Yes,
                         .a_stride = features,
                         .b_stride = features,
                         .out_stride = features};
  spec.forward = {query};
  spec.backward_input = {back};
  spec.backward_weight = {outer};
  spec.attributes = PoolAttributes{flow.sequence, shape.heads};
  return spec;
}

LayerSpec contrastive_loss(const std::string& name, const Flow& flow, const PairShape& shape) {
  LayerSpec spec = pair_loss("contrastive_loss", name, flow, shape);
  spec.parameters = {number(shape.scale_name, 2.6592f)};
  spec.collected.push_back({"lse", DType::F32, {2, shape.samples}});
  spec.collected.push_back({"losses", DType::F32, {shape.samples}});
  spec.constants = {{"numbers of samples", DType::I32, {shape.samples}}};
  spec.kept_by_input = {{"dscale", DType::F32, {1}}};
  // Transposed logits, whose rows are all samples.
  const MatmulSpec& logits = spec.forward[0];
  MatmulSpec turned = logits;
  turned.m = shape.samples;
  turned.n = flow.sequences;
  turned.out_stride = flow.sequences;
  MatmulSpec gradient = spec.backward_input[1];
  gradient.a = Transpose::Yes;
  gradient.a_stride = flow.sequences;
  spec.forward.push_back(logits);
  spec.backward_input.insert(spec.backward_input.end(), {turned, gradient, turned, gradient});
  return spec;
}

LayerSpec sigmoid_loss(const std::string& name, const Flow& flow, const PairShape& shape) {
  LayerSpec spec = pair_loss("sigmoid_loss", name, flow, shape);
  spec.parameters = {number(shape.scale_name, 2.3025851f), number(shape.bias_name, -10)};
  spec.kept_by_input = {{"dscale", DType::F32, {1}}, {"dbias", DType::F32, {1}}};
  return spec;
}

}  // namespace cleave::spec
