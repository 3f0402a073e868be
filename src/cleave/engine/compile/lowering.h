#pragma once

#include <span>
#include <vector>

#include "cleave/engine/compile/compile.h"
#include "cleave/plan/memory/stage_layout.h"
#include "cleave/schedule/passes.h"

namespace cleave::engine {

/// [stage][segment] -> what F keeps. Blocks are recomputed, not the embedding, which has nothing to
/// bring back, nor the head, whose product is the largest of all. `recompute`: see Layout.
std::vector<std::vector<plan::Keep>> keep_of(std::span<const std::vector<SegmentSpec>> stages,
                                             std::span<const schedule::Recompute> recompute);

/// What the passes add to a program that keeps this on `layout`.
schedule::LowerOptions lowering_of(std::span<const std::vector<plan::Keep>> keep,
                                   const Layout& layout);

/// Throws UserError if W of some layer reads weights that `layout` gathers for F and I only.
void check_weights_of_w(const Graph& model, const Layout& layout, const schedule::Program& program);

}  // namespace cleave::engine
