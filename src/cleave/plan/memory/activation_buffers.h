#pragma once

#include <span>

#include "cleave/plan/memory/buffer_list.h"
#include "cleave/plan/memory/list_marks.h"
#include "cleave/plan/memory/memory.h"

namespace cleave::plan {

/// What every microbatch keeps on the device of `marks`, passes between its segments and stages,
/// and exchanges with other devices.
void add_activations(const schedule::Program& program, const schedule::Topology& topology,
                     std::span<const StageMemory> memory, const ListMarks& marks, BufferList& list);

}  // namespace cleave::plan
