#pragma once

#include <string>
#include <vector>

#include "cleave/edge/policy.h"
#include "cleave/engine/compile/compile.h"
#include "cleave/train/config/config.h"

namespace cleave::app {

/// What leaves whom in a step or a round of a run.
struct FlowTable {
  std::vector<edge::Owner> owners;
  std::vector<edge::Crossing> crossings;
  edge::AskedOfOwners asked;
  std::vector<std::string> refused;  ///< a sentence for each thing that an owner does not allow

  bool allows(const edge::Crossing& crossing) const {
    return owners[crossing.from].may_send(crossing.what);
  }
};

/// The table of a run as its config has it; it has no owners if the config has none.
FlowTable flow_table(const train::Config& config, const engine::CompiledStep& step);

/// Adds what a policy does not allow to what is refused. Throws UserError if it is nobody's.
void hold_against(const edge::Policy& policy, FlowTable& table);

/// As a record to be kept: the same text wherever it is worked out.
std::string to_json(const FlowTable& table);

/// The names of some owners.
std::vector<std::string> names_of(const std::vector<int>& indices, const FlowTable& table);

}  // namespace cleave::app
