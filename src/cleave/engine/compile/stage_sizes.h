#pragma once

#include <cstdint>
#include <vector>

#include "cleave/engine/compile/compile.h"

namespace cleave::engine {

/// Segments per stage. The user counts blocks; what comes before the first of them belongs to the
/// first stage, what comes after the last one to the last stage; plan::parts_of says what goes with
/// which block.
std::vector<std::int64_t> segments_per_stage(const Graph& model, const Layout& layout, int stages);

}  // namespace cleave::engine
