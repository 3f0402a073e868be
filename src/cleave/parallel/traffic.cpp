#include "cleave/parallel/traffic.h"

#include "cleave/comm/communicator.h"

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

/// Of a tensor with all tokens, which is `own` where the tokens are not divided.
Sent reduce(const TensorSpec& own, const ShardAxis& axis) {
  if (axis.own_tokens == axis.tokens) return all_reduce(bytes_of(own), axis.devices, axis.rank);
  return {.reduce = bytes_of(own) / axis.own_tokens * axis.tokens - bytes_of(own)};
}

TensorTraffic of_chain(const LayerSpec& layer) {
  const auto& attributes = layer.as<ShardedAttributes>();
  const ShardAxis& axis = attributes.axis;
  if (layer.x.dtype == DType::I32) {
    return {.forward = reduce(layer.y, axis), .weight = gather(layer.y, axis)};
  }
  const SharedColumns& shared = attributes.shared;
  const int sharers = shared.shards / axis.local;
  const std::int64_t columns = axis.tokens * shared.columns * size_of(layer.x.dtype);
  return {.forward = gather(layer.x, axis) + reduce(layer.y, axis),
          .input = gather(layer.y, axis) + reduce(layer.x, axis) +
                   all_reduce(columns, sharers, sharers > 1 ? axis.rank % sharers : 0),
          .weight = gather(layer.x, axis)};
}

TensorTraffic of_loss(const LayerSpec& layer) {
  const ShardAxis& axis = layer.as<ShardedLossAttributes>().axis;
  const std::int64_t states = 3 * axis.local * axis.tokens * size_of(DType::F32);
  return {.forward = gather(layer.x, axis) + Sent{.gather = states * (axis.devices - 1)},
          .input = reduce(layer.x, axis),
          .weight = gather(layer.x, axis)};
}

TensorTraffic of_norm(const LayerSpec& layer) {
  const ShardAxis& axis = layer.as<TokenSlicedAttributes>().axis;
  TensorTraffic traffic;
  if (axis.own_tokens == axis.tokens) return traffic;
  for (const ParameterSpec& parameter : layer.parameters) {
    traffic.sum = traffic.sum +
                  all_reduce(parameter.elements() * size_of(DType::F32), axis.devices, axis.rank);
  }
  return traffic;
}

}  // namespace

TensorTraffic tensor_traffic(const LayerSpec& layer) {
  if (layer.kind == "sharded") return of_chain(layer);
  if (layer.kind == "sharded_loss") return of_loss(layer);
  if (layer.kind == "token_sliced") return of_norm(layer);
  return {};
}

std::size_t most_collectives(const LayerSpec& layer) {
  if (layer.kind == "sharded") return 4;  // B: dy, x, the columns that shards share, dx
  if (layer.kind == "sharded_loss") return 2;
  if (layer.kind == "token_sliced") return layer.parameters.size();
  return 0;
}

}  // namespace cleave::parallel
