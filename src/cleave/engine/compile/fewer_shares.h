#pragma once

#include <span>

#include "cleave/engine/compile/compile.h"

namespace cleave::engine {

/// What the devices at a place compute of the model where it has fewer items. Only segments that
/// have rows of them are other ones than in `usual`: [number at a place].
FewerShares fewer_shares(const FewerItems& fewer, const CompileOptions& options,
                         std::span<const Graph> usual);

}  // namespace cleave::engine
