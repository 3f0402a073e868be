#include "cleave/spec/image_layers.h"

#include <algorithm>
#include <utility>

namespace cleave {

bool counts_hits(const Graph& graph) {
  return std::ranges::any_of(graph.results, [&](const Graph::Result& result) {
    return graph.segments[result.from.segment].layers.back().y.shape.rank() == 2;
  });
}

}  // namespace cleave

namespace cleave::spec {
namespace {

ParameterSpec learned_rows(const std::string& name, std::int64_t rows, std::int64_t features) {
  return {.name = name,
          .shape = {rows, features},
          .init = {0, 0.02f},
          .decay = Decay::No,
          .pieces = {{name, 0, rows}}};
}

LayerSpec rows_layer(std::string kind, const std::string& name, TensorSpec x, TensorSpec y) {
  LayerSpec spec;
  spec.kind = std::move(kind);
  spec.name = name;
  spec.x = std::move(x);
  spec.y = std::move(y);
  return spec;
}

}  // namespace

LayerSpec class_token(const std::string& name, const Flow& flow, const ClassTokenShape& shape) {
  const std::int64_t rows = flow.sequences * (flow.sequence - 1);
  LayerSpec spec = rows_layer("class_token", name, {"x", flow.dtype, {rows, shape.features}},
                              {"y", flow.dtype, {flow.tokens(), shape.features}});
  spec.dy_until = Until::Weight;
  spec.parameters = {learned_rows(shape.token_name, 1, shape.features),
                     learned_rows(shape.position_name, flow.sequence, shape.features)};
  spec.attributes = SequenceAttributes{flow.sequence};
  return spec;
}

LayerSpec gelu(const std::string& name, const Flow& flow, std::int64_t features, GeluForm form) {
  LayerSpec spec = gelu(name, flow, features);
  spec.attributes = GeluAttributes{form};
  return spec;
}

LayerSpec first_row(const std::string& name, const Flow& flow, std::int64_t features) {
  LayerSpec spec = rows_layer("first_row", name, {"x", flow.dtype, {flow.tokens(), features}},
                              {"y", flow.dtype, {flow.sequences, features}});
  spec.attributes = SequenceAttributes{flow.sequence};
  return spec;
}

LayerSpec class_loss(const std::string& name, const Flow& flow, std::int64_t classes) {
  const std::int64_t samples = flow.sequences;
  LayerSpec spec = rows_layer("class_loss", name, {"x", flow.dtype, {samples, classes}},
                              {"losses", DType::F32, {2, samples}});
  spec.x_until = Until::Input;
  spec.reads = {{{"labels", DType::I32, {samples}}, "labels", Until::Input}};
  spec.kept_by_forward = {{{"lse", DType::F32, {samples}}, Until::Input}};
  return spec;
}

}  // namespace cleave::spec
