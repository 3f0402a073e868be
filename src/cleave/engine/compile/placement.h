#pragma once

#include <cstdint>
#include <vector>

#include "cleave/engine/compile/compile.h"

namespace cleave::engine {

/// How many segments come before the last module of a model: those of its encoders, none where it
/// has one module.
std::int64_t encoder_segments(const Graph& model);

/// Segments of each stage, where the layout says how encoders and the last module of a model share
/// the devices. Throws UserError if the model has one module, or too few segments.
std::vector<std::int64_t> placed_segments(const Graph& model, const Layout& layout, int stages);

}  // namespace cleave::engine
