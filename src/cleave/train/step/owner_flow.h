#pragma once

#include <vector>

#include "cleave/edge/flow.h"
#include "cleave/engine/compile/compile.h"
#include "cleave/train/config/config.h"

namespace cleave::train {

/// Everything that leaves an owner of `config` in a step; empty if there are none.
std::vector<edge::Crossing> owner_flow(const Config& config, const engine::CompiledStep& step);

/// The owners that it speaks of: those of the config, or where it names none, or no server, those
/// that averaging takes for granted.
std::vector<edge::Owner> flow_owners(const Config& config);

/// What averaging moves between a client and the server in a round; of the largest fragment.
struct RoundBytes {
  std::int64_t up = 0;    ///< the update
  std::int64_t down = 0;  ///< the weights of all
};
RoundBytes round_bytes(const Config& config, const Graph& model);

/// Throws UserError, with the path, if something leaves an owner that it does not send.
void check_flow(const Config& config, const engine::CompiledStep& step);

}  // namespace cleave::train
