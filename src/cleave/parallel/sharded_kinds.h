#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "cleave/layers/layer.h"
#include "cleave/parallel/tensor_group.h"
#include "cleave/parallel/traffic.h"

namespace cleave::parallel {

/// A kind of layer of this module, whose devices talk inside their group: what each of them sends,
/// and when, follows from the spec alone.
struct ShardedKind {
  std::string_view name;  ///< LayerSpec::kind
  std::unique_ptr<Layer> (*make)(const LayerSpec&, const LayerFactory&, TensorGroup*);
  TensorTraffic (*traffic)(const LayerSpec&);
  std::int64_t (*largest_exchange)(const LayerSpec&);  ///< bytes, as parallel::largest_exchange
  std::size_t (*most_collectives)(const LayerSpec&);   ///< of one pass
  /// Everything that decides what the layer sends to the others, and when.
  std::string (*meetings)(const LayerSpec&);
};

/// Null: a layer of that kind is alone with its device.
const ShardedKind* sharded_kind(std::string_view name);

}  // namespace cleave::parallel
