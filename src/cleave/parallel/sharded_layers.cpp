#include "cleave/parallel/sharded_layers.h"

#include <utility>

#include "cleave/parallel/gathered.h"
#include "cleave/parallel/sharded.h"
#include "cleave/parallel/sharded_loss.h"
#include "cleave/parallel/token_sliced.h"

namespace cleave::parallel {

LayerFactory sharded_layers(LayerFactory make, TensorGroup* group) {
  return [make = std::move(make), group](const LayerSpec& spec) -> std::unique_ptr<Layer> {
    if (spec.kind == "sharded") return std::make_unique<Sharded>(spec, make, group);
    if (spec.kind == "sharded_loss") return std::make_unique<ShardedLoss>(spec, group);
    if (spec.kind == "token_sliced") return std::make_unique<TokenSliced>(spec, make, group);
    if (spec.kind == "gathered") return std::make_unique<Gathered>(spec, make, group);
    return make(spec);
  };
}

}  // namespace cleave::parallel
