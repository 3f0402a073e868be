#include "cleave/parallel/same_order.h"

#include <algorithm>
#include <string>

#include "cleave/base/check.h"
#include "cleave/parallel/sharded_kinds.h"
#include "cleave/shard/sharded.h"

namespace cleave::parallel {
namespace {

/// What a layer sends to the others, and when; without its own number.
std::string meetings_of(const LayerSpec& layer) {
  const ShardedKind* kind = sharded_kind(layer.kind);
  return kind == nullptr ? layer.kind : detail::concat(layer.kind, ": ", kind->meetings(layer));
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
