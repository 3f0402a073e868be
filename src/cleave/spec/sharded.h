#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cleave/spec/layer_spec.h"
#include "cleave/spec/layers.h"
#include "cleave/spec/tensor_share.h"

namespace cleave::spec {

/// What a sharded layer is made of.
struct ShardedShape {
  std::vector<std::vector<LayerSpec>> chains;  ///< one for each shard of the device, all alike
  AfterSum after = AfterSum::Nothing;
  ParameterSpec added = {};   ///< what is added after the sum: a bias or the table of positions
  SharedColumns shared = {};  ///< of the first layer's y
};

/// kind "sharded": y = the sum over all shards of chain(x), by the pairwise tree over their
/// numbers; then, once, what `after` adds. The chains of a device run one after another. With
/// sequence parallelism x (unless it is token ids) and y hold the device's own tokens: x is
/// gathered before, y scattered behind, dy and dx likewise, and W gathers x once more.
///
///     x ──┬─ column linear ─ attention ─ row linear ─┬─ Σ ─ + bias ─ y
///         └─ column linear ─ attention ─ row linear ─┘
///                        (one row per shard)
LayerSpec sharded(const std::string& name, const Flow& flow, const TensorShare& share,
                  ShardedShape shape);

}  // namespace cleave::spec
