#include "cleave/parallel/sharded_layers.h"

#include <utility>

#include "cleave/parallel/sharded.h"

namespace cleave::parallel {

LayerFactory sharded_layers(LayerFactory make, TensorGroup* group) {
  return [make = std::move(make), group](const LayerSpec& spec) -> std::unique_ptr<Layer> {
    if (spec.kind == "sharded") return std::make_unique<Sharded>(spec, make, group);
    return make(spec);
  };
}

}  // namespace cleave::parallel
