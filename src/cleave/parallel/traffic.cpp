#include "cleave/parallel/traffic.h"

#include <algorithm>

#include "cleave/comm/communicator.h"
#include "cleave/parallel/tensor_group.h"
#include "cleave/shard/gathered.h"
#include "cleave/shard/sharded.h"

namespace cleave::parallel {

using comm::Sent;

std::int64_t all_reduce_bytes(std::int64_t bytes, int members, int rank) {
  if (members < 2) return 0;
  const auto borders = comm::even_borders(static_cast<std::size_t>(bytes), members);
  const auto own = static_cast<std::int64_t>(borders[rank + 1] - borders[rank]);
  return bytes - own + own * (members - 1);
}

namespace {

std::int64_t bytes_of(const TensorSpec& tensor) {
  return tensor.shape.elements() * size_of(tensor.dtype);
}

Sent all_reduce(std::int64_t bytes, int members, int rank) {
  return {.reduce = all_reduce_bytes(bytes, members, rank)};
}

Sent gather(const TensorSpec& own, const ShardAxis& axis) {
  if (axis.own_tokens == axis.tokens) return {};
  return {.gather = bytes_of(own) * (axis.devices - 1)};
}

/// What a sum of a tensor with all tokens sends; that is `own` where tokens are not divided.
Sent reduce(const TensorSpec& own, const ShardAxis& axis) {
  if (axis.own_tokens == axis.tokens) return all_reduce(bytes_of(own), axis.devices, axis.rank);
  return {.reduce = bytes_of(own) / axis.own_tokens * axis.tokens - bytes_of(own)};
}

TensorTraffic of_chain(const LayerSpec& layer, const ShardedAttributes& attributes) {
  const ShardAxis& axis = attributes.axis;
  if (attributes.from_data) {
    return {.forward = reduce(layer.y, axis),
            .weight = trains(layer) ? gather(layer.y, axis) : Sent{}};
  }
  // W of the first layers alone reads x, and the sums of what shards share.
  const bool reads_x = trains(attributes.chains[0][0]);
  const SharedColumns& shared = attributes.shared;
  const int sharers = reads_x ? shared.shards / axis.local : 1;
  const std::int64_t columns = axis.tokens * shared.columns * size_of(layer.x.dtype);
  return {.forward = gather(layer.x, axis) + reduce(layer.y, axis),
          .input = gather(layer.y, axis) + reduce(layer.x, axis) +
                   all_reduce(columns, sharers, sharers > 1 ? axis.rank % sharers : 0),
          .weight = reads_x ? gather(layer.x, axis) : Sent{}};
}

TensorTraffic of_loss(const LayerSpec& layer, const ShardAxis& axis) {
  const std::int64_t states = 3 * axis.local * axis.tokens * size_of(DType::F32);
  return {.forward = gather(layer.x, axis) + Sent{.gather = states * (axis.devices - 1)},
          .input = reduce(layer.x, axis),
          .weight = trains(layer) ? gather(layer.x, axis) : Sent{}};
}

TensorTraffic of_slices(const LayerSpec& layer, const ShardAxis& axis) {
  TensorTraffic traffic;
  if (axis.own_tokens == axis.tokens) return traffic;
  for (const ParameterSpec& parameter : layer.parameters) {
    if (!parameter.trainable) continue;
    traffic.sum = traffic.sum +
                  all_reduce(parameter.elements() * size_of(DType::F32), axis.devices, axis.rank);
  }
  return traffic;
}

TensorTraffic of_gathered(const LayerSpec& layer, const GatheredAttributes& attributes) {
  const std::int64_t others = attributes.devices - 1;
  return {.forward = {.gather = attributes.divides_x ? bytes_of(layer.x) * others : 0},
          .input = {.gather = attributes.divides_y ? bytes_of(layer.y) * others : 0}};
}

}  // namespace

TensorTraffic tensor_traffic(const LayerSpec& layer) {
  const Attributes& own = layer.attributes;
  if (const auto* chain = own.get_if<ShardedAttributes>()) return of_chain(layer, *chain);
  if (const auto* loss = own.get_if<ShardedLossAttributes>()) return of_loss(layer, loss->axis);
  if (const auto* sliced = own.get_if<TokenSlicedAttributes>())
    return of_slices(layer, sliced->axis);
  if (const auto* gathered = own.get_if<GatheredAttributes>()) return of_gathered(layer, *gathered);
  return {};
}

namespace {

/// Of a tensor of which a device has its own tokens, or all.
std::int64_t exchanged(const TensorSpec& own, const ShardAxis& axis) {
  return TensorGroup::exchange_host_bytes(bytes_of(own) / axis.own_tokens * axis.tokens,
                                          axis.devices);
}

std::int64_t exchanged_of_chain(const LayerSpec& layer, const ShardedAttributes& attributes) {
  const ShardAxis& axis = attributes.axis;
  const SharedColumns& shared = attributes.shared;
  const std::int64_t columns = axis.tokens * shared.columns * size_of(layer.x.dtype);
  const int sharers = static_cast<int>(shared.shards / axis.local);
  return std::max({attributes.from_data ? 0 : exchanged(layer.x, axis), exchanged(layer.y, axis),
                   sharers > 1 ? TensorGroup::exchange_host_bytes(columns, sharers) : 0});
}

std::int64_t exchanged_of_loss(const LayerSpec& layer, const ShardAxis& axis) {
  const std::int64_t states = 3 * axis.local * axis.devices * axis.tokens * size_of(DType::F32);
  return std::max(exchanged(layer.x, axis), TensorGroup::exchange_host_bytes(states, axis.devices));
}

std::int64_t exchanged_of_slices(const LayerSpec& layer, const ShardAxis& axis) {
  std::int64_t most = 0;
  for (const ParameterSpec& parameter : layer.parameters)
    most = std::max(most, parameter.elements() * size_of(DType::F32));
  return TensorGroup::exchange_host_bytes(most, axis.devices);
}

std::int64_t exchanged_of_gathered(const LayerSpec& layer, const GatheredAttributes& attributes) {
  const int devices = static_cast<int>(attributes.devices);
  const std::int64_t x = attributes.divides_x ? bytes_of(layer.x) * devices : 0;
  const std::int64_t y = attributes.divides_y ? bytes_of(layer.y) * devices : 0;
  return TensorGroup::exchange_host_bytes(std::max(x, y), devices);
}

}  // namespace

std::int64_t largest_exchange(const LayerSpec& layer) {
  const Attributes& own = layer.attributes;
  if (const auto* chain = own.get_if<ShardedAttributes>())
    return chain->axis.devices < 2 ? 0 : exchanged_of_chain(layer, *chain);
  if (const auto* loss = own.get_if<ShardedLossAttributes>())
    return loss->axis.devices < 2 ? 0 : exchanged_of_loss(layer, loss->axis);
  if (const auto* sliced = own.get_if<TokenSlicedAttributes>())
    return sliced->axis.devices < 2 ? 0 : exchanged_of_slices(layer, sliced->axis);
  if (const auto* gathered = own.get_if<GatheredAttributes>())
    return gathered->devices < 2 ? 0 : exchanged_of_gathered(layer, *gathered);
  return 0;
}

std::size_t most_collectives(const LayerSpec& layer) {
  const Attributes& own = layer.attributes;
  // B: dy, x, the columns that shards share, dx.
  if (own.get_if<ShardedAttributes>() != nullptr) return 4;
  if (own.get_if<ShardedLossAttributes>() != nullptr) return 2;
  if (own.get_if<TokenSlicedAttributes>() != nullptr) return layer.parameters.size();
  if (own.get_if<GatheredAttributes>() != nullptr) return 1;
  return 0;
}

}  // namespace cleave::parallel
