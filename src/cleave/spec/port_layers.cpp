#include "cleave/spec/port_layers.h"

#include "cleave/spec/layer_parts.h"

namespace cleave::spec {
namespace {

ReadTensor port_tensor(const std::string& port, const Flow& flow, std::int64_t features) {
  return {.tensor = {port, flow.dtype, {flow.tokens(), features}},
          .port = port,
          .until = Until::Forward,
          .gradient = true};
}

}  // namespace

LayerSpec add_port(const std::string& name, const Flow& flow, std::int64_t features,
                   const std::string& port) {
  LayerSpec spec = token_layer("add_port", name, flow, features, features);
  spec.reads = {port_tensor(port, flow, features)};
  spec.cheap = true;
  return spec;
}

LayerSpec concat_port(const std::string& name, const Flow& flow, const ConcatShape& shape,
                      const std::string& port) {
  LayerSpec spec = token_layer("concat_port", name, flow, shape.places * shape.own,
                               shape.places * (shape.own + shape.other));
  spec.reads = {port_tensor(port, flow, shape.places * shape.other)};
  spec.attributes = ConcatAttributes{shape.places};
  return spec;
}

}  // namespace cleave::spec
