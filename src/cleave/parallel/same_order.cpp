#include "cleave/parallel/same_order.h"

#include <algorithm>
#include <string>

#include "cleave/base/check.h"
#include "cleave/shard/gathered.h"
#include "cleave/shard/sharded.h"

namespace cleave::parallel {
namespace {

std::string text_of(const ShardAxis& axis) {
  return detail::concat(axis.devices, " devices, ", axis.local, " shards each, ", axis.own_tokens,
                        " of ", axis.tokens, " tokens");
}

/// Everything that decides what a layer sends to the others, and when; without its own number.
std::string meetings_of(const LayerSpec& layer) {
  std::string text = layer.kind;
  if (const auto* sharded = layer.attributes.get_if<ShardedAttributes>()) {
    text += detail::concat(": ", text_of(sharded->axis), ", x ", to_string(layer.x.shape), ", y ",
                           to_string(layer.y.shape), ", shared ", sharded->shared.columns, " by ",
                           sharded->shared.shards);
  } else if (const auto* loss = layer.attributes.get_if<ShardedLossAttributes>()) {
    text += detail::concat(": ", text_of(loss->axis), ", x ", to_string(layer.x.shape));
  } else if (const auto* gathered = layer.attributes.get_if<GatheredAttributes>()) {
    text += detail::concat(": ", gathered->devices, " devices, x ", to_string(layer.x.shape),
                           ", y ", to_string(layer.y.shape));
  } else if (const auto* sliced = layer.attributes.get_if<TokenSlicedAttributes>()) {
    text += detail::concat(": ", text_of(sliced->axis));
    for (const ParameterSpec& parameter : layer.parameters)
      text += detail::concat(", ", to_string(parameter.shape));
  }
  return text;
}

}  // namespace

void check_same_order(std::span<const Graph> shares) {
  const Graph& first = shares.front();
  for (std::size_t number = 1; number < shares.size(); ++number) {
    const Graph& other = shares[number];
    CLEAVE_CHECK(other.segments.size() == first.segments.size(), "device ", number, " has ",
                 other.segments.size(), " segments, device 0 has ", first.segments.size());
    for (std::size_t s = 0; s < first.segments.size(); ++s) {
      const auto& mine = first.segments[s].layers;
      const auto& theirs = other.segments[s].layers;
      CLEAVE_CHECK(theirs.size() == mine.size(), "device ", number, " has ", theirs.size(),
                   " layers in ", first.segments[s].name, ", device 0 has ", mine.size());
      for (std::size_t i = 0; i < mine.size(); ++i) {
        CLEAVE_CHECK(meetings_of(theirs[i]) == meetings_of(mine[i]), mine[i].name, " of device ",
                     number, " is ", meetings_of(theirs[i]), "; of device 0 ",
                     meetings_of(mine[i]));
      }
    }
  }
}

int sharing_devices(std::span<const SegmentSpec> segments) {
  int most = 0;
  for (const SegmentSpec& segment : segments) {
    for (const LayerSpec& layer : segment.layers) {
      if (const auto* sharded = layer.attributes.get_if<ShardedAttributes>())
        most = std::max(most, sharded->shared.shards / sharded->axis.local);
    }
  }
  return most;
}

}  // namespace cleave::parallel
