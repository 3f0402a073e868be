#pragma once

#include <optional>

#include "cleave/train/keep/moving.h"
#include "cleave/train/save/start.h"

namespace cleave::train {

/// Whether devices can read what they have of the state, and so keep it when a plan has ended.
bool can_keep_state(const engine::CompiledStep& compiled);

/// Whether the model has parameters that are not trained: they are no part of the state.
bool has_frozen(const Graph& model);

/// Who may have kept some of the state, and the plan that is to go on with it.
struct StateSearch {
  KeptState& kept;
  comm::Communicator& everyone;  ///< the devices of the plan, then others
  const engine::CompiledStep& compiled;
  const checkpoint::CheckpointLayout& layout;
};

/// Looks for the state in the memory of those who are here, if it is not older than the last
/// checkpoint; `start` knows then. All devices call it, and everybody else give_state().
std::optional<MovedState> state_in_memory(const StateSearch& search, const Config& config,
                                          StartOptions& start);

}  // namespace cleave::train
