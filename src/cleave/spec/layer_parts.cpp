#include "cleave/spec/layer_parts.h"

#include <utility>

namespace cleave::spec {

LayerSpec layer_between(std::string kind, const std::string& name, TensorSpec x, TensorSpec y) {
  LayerSpec spec;
  spec.kind = std::move(kind);
  spec.name = name;
  spec.x = std::move(x);
  spec.y = std::move(y);
  return spec;
}

LayerSpec token_layer(std::string kind, const std::string& name, const Flow& flow,
                      std::int64_t from, std::int64_t to) {
  return layer_between(std::move(kind), name, {"x", flow.dtype, {flow.tokens(), from}},
                       {"y", flow.dtype, {flow.tokens(), to}});
}

LayerSpec sequence_layer(std::string kind, const std::string& name, const Flow& flow,
                         std::int64_t from, std::int64_t to) {
  return layer_between(std::move(kind), name, {"x", flow.dtype, {flow.sequences, from}},
                       {"y", flow.dtype, {flow.sequences, to}});
}

ParameterSpec vector_parameter(const std::string& name, std::int64_t size, float value) {
  return {.name = name,
          .shape = {size},
          .init = {value, 0},
          .decay = Decay::No,
          .pieces = {{name, 0, size}}};
}

ParameterSpec matrix_parameter(const std::string& name, Shape shape, float deviation) {
  return {.name = name,
          .shape = shape,
          .init = {0, deviation},
          .decay = Decay::Yes,
          .pieces = {{name, 0, shape[0]}}};
}

}  // namespace cleave::spec
