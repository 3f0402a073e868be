#pragma once

#include <span>

#include "cleave/shard/layer_traits.h"
#include "cleave/spec/graph.h"

namespace cleave::shard {

/// The graph of what one device computes of `whole`: the same segments, edges, inputs and results,
/// with every layer that can be cut replaced by the device's shards of it.
///
/// A chain of layers is cut as a whole: it begins with a layer whose shards read all of x and ends
/// with one whose shards give addends of y. Layers that cannot be cut are computed whole on every
/// device, and the first device owns their parameters. Throws UserError, saying what would do, if a
/// layer cannot be cut into that many shards.
Graph share_of(const Graph& whole, const TensorShare& share, const TraitsOf& traits);

/// The same where modules are cut in different ways: `shares` has one for each segment. What goes
/// from one such module to another is whole on all devices, so no rows may be divided.
Graph share_by_segment(const Graph& whole, std::span<const TensorShare> shares,
                       const TraitsOf& traits);

}  // namespace cleave::shard
