#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "cleave/comm/communicator.h"
#include "cleave/spec/graph.h"
#include "cleave/train/keep/kept_state.h"

namespace cleave::train {

/// The state that a plan begins with, where it is in the memory of the devices that are here: what
/// each has of it. The same on all of them.
struct MovedState {
  std::int64_t step = 0;                      ///< updates done
  std::vector<std::vector<Stripe>> holdings;  ///< [member] their `at` counts through its versions
};

/// How many elements there are of each tensor of the state, by (part, parameter): of what is
/// trained.
using StateSizes = std::map<std::pair<std::int32_t, std::int32_t>, std::int64_t>;
StateSizes state_sizes(const Graph& model, const checkpoint::CheckpointLayout& layout);

/// The newest step of which every element exists among the members of `everyone`, if it is not
/// older than `least`, which is what the first member says, as is `sizes`. All members call it.
std::optional<MovedState> find_state(comm::Communicator& everyone, const KeptState& kept,
                                     const StateSizes& sizes, std::int64_t least);

/// Fills `wanted` with it: every element comes from the member itself or else directly from one
/// that has it. All members call it; whoever only gives wants nothing.
void move_state(comm::Communicator& everyone, const MovedState& state, const KeptState& kept,
                const StateImage& wanted);

}  // namespace cleave::train
