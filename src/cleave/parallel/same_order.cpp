#include "cleave/parallel/same_order.h"

#include <string>

#include "cleave/base/check.h"

namespace cleave::parallel {
namespace {

std::string text_of(const ShardAxis& axis) {
  return detail::concat(axis.devices, " devices, ", axis.local, " shards each, ", axis.own_tokens,
                        " of ", axis.tokens, " tokens");
}

/// Everything that decides what a layer sends to the others, and when; without its own number.
std::string meetings_of(const LayerSpec& layer) {
  std::string text = layer.kind;
  if (layer.kind == "sharded") {
    const auto& attributes = layer.as<ShardedAttributes>();
    text += detail::concat(": ", text_of(attributes.axis), ", x ", to_string(layer.x.shape), ", y ",
                           to_string(layer.y.shape), ", shared ", attributes.shared.columns, " by ",
                           attributes.shared.shards);
  } else if (layer.kind == "sharded_loss") {
    text += detail::concat(": ", text_of(layer.as<ShardedLossAttributes>().axis), ", x ",
                           to_string(layer.x.shape));
  } else if (layer.kind == "token_sliced") {
    text += detail::concat(": ", text_of(layer.as<TokenSlicedAttributes>().axis));
    for (const ParameterSpec& parameter : layer.parameters)
      text += detail::concat(", ", to_string(parameter.shape));
  }
  return text;
}

}  // namespace

void check_same_order(std::span<const ModelSpec> shares) {
  const ModelSpec& first = shares.front();
  for (std::size_t number = 1; number < shares.size(); ++number) {
    const ModelSpec& other = shares[number];
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

}  // namespace cleave::parallel
