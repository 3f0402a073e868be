#pragma once

#include <span>
#include <vector>

#include "cleave/plan/memory/memory.h"

namespace cleave::plan {

/// Where a device keeps its share of a sum of gradients, if replicas share them.
enum class Shares {
  Apart,    ///< in a buffer of its own from REDUCE on; what was whole is given back
  InPlace,  ///< where the sum is, which lasts like one that nobody shares
};

/// Everything that lives on `device`, with lifetimes and without offsets.
std::vector<schedule::Buffer> collect_buffers(const schedule::Program& program,
                                              const schedule::Topology& topology,
                                              std::span<const StageMemory> memory, int device,
                                              Shares shares);

}  // namespace cleave::plan
