#pragma once

#include <cstdint>
#include <vector>

#include "cleave/engine/compile/compile.h"

namespace cleave::engine {

/// Segments of each stage, where the layout says how encoders and the last module of a model share
/// the devices. Throws UserError if the model has one module, or too few segments.
std::vector<std::int64_t> placed_segments(const Graph& model, const Layout& layout, int stages);

}  // namespace cleave::engine
