#include "cleave/parallel/sharded_layers.h"

#include <utility>

#include "cleave/parallel/sharded_kinds.h"

namespace cleave::parallel {

LayerFactory sharded_layers(LayerFactory make, TensorGroup* group) {
  return [make = std::move(make), group](const LayerSpec& spec) -> std::unique_ptr<Layer> {
    const ShardedKind* kind = sharded_kind(spec.kind);
    return kind == nullptr ? make(spec) : kind->make(spec, make, group);
  };
}

}  // namespace cleave::parallel
