#include "cleave/spec/image_layers.h"

#include <algorithm>
#include <utility>

#include "cleave/base/check.h"
#include "cleave/spec/layer_parts.h"

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

}  // namespace

LayerSpec class_token(const std::string& name, const Flow& flow, const ClassTokenShape& shape) {
  const std::int64_t rows = flow.sequences * (flow.sequence - 1);
  LayerSpec spec = layer_between("class_token", name, {"x", flow.dtype, {rows, shape.features}},
                                 {"y", flow.dtype, {flow.tokens(), shape.features}});
  spec.dy_until = Until::Weight;
  spec.parameters = {learned_rows(shape.token_name, 1, shape.features),
                     learned_rows(shape.position_name, flow.sequence, shape.features)};
  spec.attributes = SequenceAttributes{flow.sequence};
  return spec;
}

LayerSpec positions(const std::string& name, const Flow& flow, std::int64_t features,
                    const std::string& position_name) {
  const TensorSpec rows{"x", flow.dtype, {flow.tokens(), features}};
  LayerSpec spec = layer_between("positions", name, rows, {"y", flow.dtype, rows.shape});
  spec.dy_until = Until::Weight;
  spec.parameters = {learned_rows(position_name, flow.sequence, features)};
  spec.attributes = SequenceAttributes{flow.sequence};
  return spec;
}

LayerSpec gelu(const std::string& name, const Flow& flow, std::int64_t features, GeluForm form) {
  LayerSpec spec = gelu(name, flow, features);
  spec.attributes = GeluAttributes{form};
  return spec;
}

LayerSpec first_row(const std::string& name, const Flow& flow, std::int64_t features) {
  LayerSpec spec = layer_between("first_row", name, {"x", flow.dtype, {flow.tokens(), features}},
                                 {"y", flow.dtype, {flow.sequences, features}});
  spec.attributes = SequenceAttributes{flow.sequence};
  return spec;
}

LayerSpec without_first(const std::string& name, const Flow& flow, std::int64_t features) {
  const std::int64_t rows = flow.sequences * (flow.sequence - 1);
  LayerSpec spec =
      layer_between("without_first", name, {"x", flow.dtype, {flow.tokens(), features}},
                    {"y", flow.dtype, {rows, features}});
  spec.attributes = SequenceAttributes{flow.sequence};
  return spec;
}

LayerSpec pixel_shuffle(const std::string& name, const Flow& flow, std::int64_t features,
                        std::int64_t by) {
  std::int64_t side = 1;
  while (side * side < flow.sequence) ++side;
  require(by >= 1 && side * side == flow.sequence && side % by == 0, name, " has ", flow.sequence,
          " rows of an image, which are no square of squares of ", by, " x ", by);
  LayerSpec spec =
      layer_between("pixel_shuffle", name, {"x", flow.dtype, {flow.tokens(), features}},
                    {"y", flow.dtype, {flow.tokens() / (by * by), by * by * features}});
  spec.attributes = ShuffleAttributes{side, by};
  return spec;
}

LayerSpec image_join(const std::string& name, const Flow& flow, const ImageJoinShape& shape) {
  const std::int64_t tokens = flow.tokens();
  LayerSpec spec =
      layer_between("image_join", name, {"x", flow.dtype, {shape.rows, shape.features}},
                    {"y", flow.dtype, {tokens, shape.features}});
  spec.does_without_x = true;
  spec.dy_until = Until::Weight;
  for (const char* port : {"tokens", "places"})
    spec.reads.push_back({{port, DType::I32, {tokens}}, port, Until::Weight});
  spec.parameters = {learned_rows(shape.token_name, shape.vocabulary, shape.features)};
  spec.parameters[0].decay = Decay::Yes;
  spec.attributes = EmbeddingAttributes{
      .sequence = flow.sequence, .vocabulary = shape.vocabulary, .still = shape.still};
  return spec;
}

LayerSpec kept_rows(const std::string& name, const Flow& flow, std::int64_t features) {
  const Shape rows{flow.tokens(), features};
  return layer_between("kept_rows", name, {"x", flow.dtype, rows}, {"y", flow.dtype, rows});
}

LayerSpec add_rows(const std::string& name, const Flow& flow, std::int64_t features,
                   std::int64_t rows) {
  const Shape text{flow.tokens(), features};
  LayerSpec spec =
      layer_between("add_rows", name, {"x", flow.dtype, text}, {"y", flow.dtype, text});
  spec.reads = {{.tensor = {"rows", flow.dtype, {rows, features}},
                 .port = "rows",
                 .until = Until::Forward,
                 .gradient = true,
                 .may_lack = true},
                {{"places", DType::I32, {flow.tokens()}}, "places", Until::Input}};
  return spec;
}

LayerSpec class_loss(const std::string& name, const Flow& flow, std::int64_t classes) {
  const std::int64_t samples = flow.sequences;
  LayerSpec spec = layer_between("class_loss", name, {"x", flow.dtype, {samples, classes}},
                                 {"losses", DType::F32, {2, samples}});
  spec.x_until = Until::Input;
  spec.reads = {{{"labels", DType::I32, {samples}}, "labels", Until::Input}};
  spec.kept_by_forward = {{{"lse", DType::F32, {samples}}, Until::Input}};
  return spec;
}

}  // namespace cleave::spec
