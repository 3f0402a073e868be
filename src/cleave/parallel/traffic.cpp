#include "cleave/parallel/traffic.h"

#include "cleave/comm/communicator.h"

namespace cleave::parallel {
namespace {

/// A sum over `devices`, on all of them: rank sends what others add up, then its own part of the
/// sum.
std::int64_t all_reduce(std::int64_t bytes, int devices, int rank) {
  if (devices < 2) return 0;
  const auto borders = comm::even_borders(static_cast<std::size_t>(bytes), devices);
  const auto own = static_cast<std::int64_t>(borders[rank + 1] - borders[rank]);
  return bytes - own + own * (devices - 1);
}

std::int64_t bytes_of(const TensorSpec& tensor) {
  return tensor.shape.elements() * size_of(tensor.dtype);
}

/// All rows of `own` tokens.
std::int64_t whole_bytes(const TensorSpec& own, const ShardAxis& axis) {
  return bytes_of(own) / axis.own_tokens * axis.tokens;
}

std::int64_t gather(const TensorSpec& own, const ShardAxis& axis) {
  return axis.own_tokens == axis.tokens ? 0 : bytes_of(own) * (axis.devices - 1);
}

std::int64_t reduce(const TensorSpec& own, const ShardAxis& axis) {
  if (axis.own_tokens == axis.tokens) return all_reduce(bytes_of(own), axis.devices, axis.rank);
  return whole_bytes(own, axis) - bytes_of(own);
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
                   (sharers > 1 ? all_reduce(columns, sharers, axis.rank % sharers) : 0),
          .weight = gather(layer.x, axis)};
}

}  // namespace

TensorTraffic tensor_traffic(const LayerSpec& layer) {
  if (layer.kind == "sharded") return of_chain(layer);
  if (layer.kind == "sharded_loss") {
    const ShardAxis& axis = layer.as<ShardedLossAttributes>().axis;
    const std::int64_t states = 3 * axis.local * axis.tokens * size_of(DType::F32);
    return {.forward = gather(layer.x, axis) + states * (axis.devices - 1),
            .input = reduce(layer.x, axis),
            .weight = gather(layer.x, axis)};
  }
  if (layer.kind == "token_sliced") {
    const ShardAxis& axis = layer.as<TokenSlicedAttributes>().axis;
    TensorTraffic traffic;
    if (axis.own_tokens == axis.tokens) return traffic;
    for (const ParameterSpec& parameter : layer.parameters) {
      traffic.sum +=
          all_reduce(parameter.elements() * size_of(DType::F32), axis.devices, axis.rank);
    }
    return traffic;
  }
  return {};
}

}  // namespace cleave::parallel
