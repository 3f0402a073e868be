#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cleave/schedule/program.h"
#include "cleave/spec/graph.h"

namespace cleave::plan {

// Which gradients the stages of a cut are asked for. Compiling a cut and searching for one ask the
// same functions, so that both leave out the same passes of what does not learn.

/// [segment] Full if it learns, InputOnly if only something that it reads does, else None.
std::vector<schedule::GradientKind> segment_gradients(const Graph& model);

/// The same for groups of so many members each, one after another. A group runs a pass as a whole
/// if one of its members asks for it.
std::vector<schedule::GradientKind> group_gradients(std::span<const schedule::GradientKind> members,
                                                    std::span<const std::int64_t> sizes);

/// [part] of a model, as parts_of() numbers them.
std::vector<schedule::GradientKind> part_gradients(const Graph& model);

/// Gives the stages of `program` their kinds and leaves out what these do not ask for. Where all
/// stages learn, or none, nothing is left out.
void set_gradients(schedule::Program& program, std::vector<schedule::GradientKind> kinds);

}  // namespace cleave::plan
