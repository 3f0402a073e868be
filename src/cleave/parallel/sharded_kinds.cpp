#include "cleave/parallel/sharded_kinds.h"

#include <algorithm>

#include "cleave/base/check.h"
#include "cleave/comm/communicator.h"
#include "cleave/parallel/gathered.h"
#include "cleave/parallel/sharded.h"
#include "cleave/parallel/sharded_loss.h"
#include "cleave/parallel/token_sliced.h"
#include "cleave/shard/gathered.h"
#include "cleave/shard/sharded.h"

namespace cleave::parallel {
namespace {

using comm::Sent;

template <class Made>
std::unique_ptr<Layer> make_sharded(const LayerSpec& spec, const LayerFactory& make,
                                    TensorGroup* group) {
  return std::make_unique<Made>(spec, make, group);
}

std::unique_ptr<Layer> make_loss(const LayerSpec& spec, const LayerFactory&, TensorGroup* group) {
  return std::make_unique<ShardedLoss>(spec, group);
}

// ---- What a device sends.

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

TensorTraffic traffic_of_chains(const LayerSpec& layer) {
  const auto& attributes = layer.as<ShardedAttributes>();
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

TensorTraffic traffic_of_loss(const LayerSpec& layer) {
  const ShardAxis& axis = layer.as<ShardedLossAttributes>().axis;
  const std::int64_t states = 3 * axis.local * axis.tokens * size_of(DType::F32);
  return {.forward = gather(layer.x, axis) + Sent{.gather = states * (axis.devices - 1)},
          .input = reduce(layer.x, axis),
          .weight = trains(layer) ? gather(layer.x, axis) : Sent{}};
}

TensorTraffic traffic_of_slices(const LayerSpec& layer) {
  const ShardAxis& axis = layer.as<TokenSlicedAttributes>().axis;
  TensorTraffic traffic;
  if (axis.own_tokens == axis.tokens) return traffic;
  for (const ParameterSpec& parameter : layer.parameters) {
    if (!parameter.trainable) continue;
    traffic.sum = traffic.sum +
                  all_reduce(parameter.elements() * size_of(DType::F32), axis.devices, axis.rank);
  }
  return traffic;
}

TensorTraffic traffic_of_gathered(const LayerSpec& layer) {
  const auto& attributes = layer.as<GatheredAttributes>();
  const std::int64_t others = attributes.devices - 1;
  return {.forward = {.gather = attributes.divides_x ? bytes_of(layer.x) * others : 0},
          .input = {.gather = attributes.divides_y ? bytes_of(layer.y) * others : 0}};
}

// ---- The largest of that at once.

/// Of a tensor of which a device has its own tokens, or all.
std::int64_t exchanged(const TensorSpec& own, const ShardAxis& axis) {
  return TensorGroup::exchange_host_bytes(bytes_of(own) / axis.own_tokens * axis.tokens,
                                          axis.devices);
}

std::int64_t exchange_of_chains(const LayerSpec& layer) {
  const auto& attributes = layer.as<ShardedAttributes>();
  const ShardAxis& axis = attributes.axis;
  if (axis.devices < 2) return 0;
  const SharedColumns& shared = attributes.shared;
  const std::int64_t columns = axis.tokens * shared.columns * size_of(layer.x.dtype);
  const int sharers = static_cast<int>(shared.shards / axis.local);
  return std::max({attributes.from_data ? 0 : exchanged(layer.x, axis), exchanged(layer.y, axis),
                   sharers > 1 ? TensorGroup::exchange_host_bytes(columns, sharers) : 0});
}

std::int64_t exchange_of_loss(const LayerSpec& layer) {
  const ShardAxis& axis = layer.as<ShardedLossAttributes>().axis;
  if (axis.devices < 2) return 0;
  const std::int64_t states = 3 * axis.local * axis.devices * axis.tokens * size_of(DType::F32);
  return std::max(exchanged(layer.x, axis), TensorGroup::exchange_host_bytes(states, axis.devices));
}

std::int64_t exchange_of_slices(const LayerSpec& layer) {
  const ShardAxis& axis = layer.as<TokenSlicedAttributes>().axis;
  if (axis.devices < 2) return 0;
  std::int64_t most = 0;
  for (const ParameterSpec& parameter : layer.parameters)
    most = std::max(most, parameter.elements() * size_of(DType::F32));
  return TensorGroup::exchange_host_bytes(most, axis.devices);
}

std::int64_t exchange_of_gathered(const LayerSpec& layer) {
  const auto& attributes = layer.as<GatheredAttributes>();
  if (attributes.devices < 2) return 0;
  const int devices = static_cast<int>(attributes.devices);
  const std::int64_t x = attributes.divides_x ? bytes_of(layer.x) * devices : 0;
  const std::int64_t y = attributes.divides_y ? bytes_of(layer.y) * devices : 0;
  return TensorGroup::exchange_host_bytes(std::max(x, y), devices);
}

// ---- How many collectives one pass posts.

/// B: dy, x, the columns that shards share, dx.
std::size_t collectives_of_chains(const LayerSpec&) {
  return 4;
}

std::size_t collectives_of_loss(const LayerSpec&) {
  return 2;
}

std::size_t collectives_of_slices(const LayerSpec& layer) {
  return layer.parameters.size();
}

std::size_t collectives_of_gathered(const LayerSpec&) {
  return 1;
}

// ---- When devices meet.

std::string text_of(const ShardAxis& axis) {
  return detail::concat(axis.devices, " devices, ", axis.local, " shards each, ", axis.own_tokens,
                        " of ", axis.tokens, " tokens");
}

std::string meetings_of_chains(const LayerSpec& layer) {
  const auto& sharded = layer.as<ShardedAttributes>();
  return detail::concat(text_of(sharded.axis), ", x ", to_string(layer.x.shape), ", y ",
                        to_string(layer.y.shape), ", shared ", sharded.shared.columns, " by ",
                        sharded.shared.shards);
}

std::string meetings_of_loss(const LayerSpec& layer) {
  return detail::concat(text_of(layer.as<ShardedLossAttributes>().axis), ", x ",
                        to_string(layer.x.shape));
}

std::string meetings_of_slices(const LayerSpec& layer) {
  std::string text = text_of(layer.as<TokenSlicedAttributes>().axis);
  for (const ParameterSpec& parameter : layer.parameters)
    text += detail::concat(", ", to_string(parameter.shape));
  return text;
}

std::string meetings_of_gathered(const LayerSpec& layer) {
  return detail::concat(layer.as<GatheredAttributes>().devices, " devices, x ",
                        to_string(layer.x.shape), ", y ", to_string(layer.y.shape));
}

constexpr ShardedKind kShardedKinds[] = {
    {"sharded", make_sharded<Sharded>, traffic_of_chains, exchange_of_chains, collectives_of_chains,
     meetings_of_chains},
    {"sharded_loss", make_loss, traffic_of_loss, exchange_of_loss, collectives_of_loss,
     meetings_of_loss},
    {"token_sliced", make_sharded<TokenSliced>, traffic_of_slices, exchange_of_slices,
     collectives_of_slices, meetings_of_slices},
    {"gathered", make_sharded<Gathered>, traffic_of_gathered, exchange_of_gathered,
     collectives_of_gathered, meetings_of_gathered}};

}  // namespace

const ShardedKind* sharded_kind(std::string_view name) {
  const auto* kind = std::ranges::find(kShardedKinds, name, &ShardedKind::name);
  return kind == std::end(kShardedKinds) ? nullptr : kind;
}

}  // namespace cleave::parallel
