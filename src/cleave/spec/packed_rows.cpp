#include "cleave/spec/packed_rows.h"

#include <set>
#include <string>

#include "cleave/base/check.h"

namespace cleave {

std::int64_t value_bytes(const ParameterSpec& parameter, DType dtype) {
  if (parameter.held != Held::Packed) return parameter.elements() * size_of(dtype);
  return parameter.shape[0] * packed_row_words(parameter.shape[1]) * size_of(DType::I32);
}

namespace {

/// Where the tokens of a model are looked up by a layer that cannot do so in packed rows; empty:
/// nowhere.
std::string other_table(const Graph& graph) {
  for (const SegmentSpec& segment : graph.segments)
    for (const LayerSpec& layer : segment.layers)
      if (layer.attributes.get_if<EmbeddingAttributes>() != nullptr) return layer.name;
  return {};
}

}  // namespace

void pack_embeddings(Graph& graph) {
  std::set<std::string> packed;
  const auto for_each_layer = [&](const auto& visit) {
    for (SegmentSpec& segment : graph.segments)
      for (LayerSpec& layer : segment.layers) visit(layer);
  };
  for_each_layer([&](LayerSpec& layer) {
    if (layer.kind != "embedding") return;
    ParameterSpec& table = layer.parameters.front();
    require(!table.trainable, "model.frozen_embedding is \"int8\", and ", table.name,
            " learns, alone or with a head that shares it; name other parameters in model.train, "
            "train adapters (lora.rank), or set model.frozen_embedding to \"full\"");
    layer.kind = "packed_embedding";
    table.held = Held::Packed;
    packed.insert(table.name);
  });
  const std::string other = packed.empty() ? other_table(graph) : "";
  require(other.empty(), "model.frozen_embedding is \"int8\", and layer ", other,
          " puts rows of images among those of its table, which it cannot with packed ones; leave "
          "it out");
  require(!packed.empty(),
          "model.frozen_embedding is \"int8\", and the model has no table of tokens; leave it out");
  for_each_layer([&](LayerSpec& layer) {
    for (ParameterSpec& parameter : layer.parameters)
      if (packed.contains(parameter.tied_to)) parameter.held = Held::Rounded;
  });
}

}  // namespace cleave
