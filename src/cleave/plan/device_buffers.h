#pragma once

#include <span>
#include <vector>

#include "cleave/plan/memory.h"

namespace cleave::plan {

/// Everything that lives on `device`, with lifetimes and without offsets.
std::vector<schedule::Buffer> collect_buffers(const schedule::Program& program,
                                              const schedule::Topology& topology,
                                              std::span<const StageMemory> memory, int device);

}  // namespace cleave::plan
