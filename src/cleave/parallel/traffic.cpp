#include "cleave/parallel/traffic.h"

#include "cleave/comm/communicator.h"
#include "cleave/parallel/sharded_kinds.h"

namespace cleave::parallel {

std::int64_t all_reduce_bytes(std::int64_t bytes, int members, int rank) {
  if (members < 2) return 0;
  const auto borders = comm::even_borders(static_cast<std::size_t>(bytes), members);
  const auto own = static_cast<std::int64_t>(borders[rank + 1] - borders[rank]);
  return bytes - own + own * (members - 1);
}

TensorTraffic tensor_traffic(const LayerSpec& layer) {
  const ShardedKind* kind = sharded_kind(layer.kind);
  return kind == nullptr ? TensorTraffic() : kind->traffic(layer);
}

std::int64_t largest_exchange(const LayerSpec& layer) {
  const ShardedKind* kind = sharded_kind(layer.kind);
  return kind == nullptr ? 0 : kind->largest_exchange(layer);
}

std::size_t most_collectives(const LayerSpec& layer) {
  const ShardedKind* kind = sharded_kind(layer.kind);
  return kind == nullptr ? 0 : kind->most_collectives(layer);
}

}  // namespace cleave::parallel
