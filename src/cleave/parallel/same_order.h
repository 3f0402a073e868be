#pragma once

#include <span>

#include "cleave/spec/graph.h"

namespace cleave::parallel {

/// Throws InternalError unless the devices at a place meet in the same sums and gathers, in the
/// same order and with the same sizes, whatever instruction they run.
///
/// They run one list, so the order of instructions is the same by construction; this is about the
/// layers inside them. `shares`: [number at a place].
void check_same_order(std::span<const Graph> shares);

/// How many neighbouring devices at a place compute the same columns of some layer of its segments:
/// those of key-value heads that they share. 1 or less: none do.
int sharing_devices(std::span<const SegmentSpec> segments);

}  // namespace cleave::parallel
