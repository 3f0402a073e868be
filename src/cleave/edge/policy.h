#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cleave/edge/flow.h"
#include "cleave/edge/owner.h"

namespace cleave::edge {

/// What an owner lets happen with what is its own, whatever the config of a run says. A number of 0
/// is no limit.
struct Policy {
  std::string owner;
  std::vector<Class> sends;     ///< what may leave it
  std::vector<std::string> to;  ///< owners that may get it; empty: any
  std::int64_t bytes = 0;       ///< that leave it in a step or a round, at most
  std::int64_t steps = 0;       ///< or rounds, at most
  std::int64_t layers = 0;      ///< of its own before what it sends, at least
  double epsilon = 0;           ///< that all rounds cost, at most
};

/// What a run asks of every owner.
struct AskedOfOwners {
  std::int64_t steps = 0;
  bool rounds = false;  ///< steps are rounds, in which whole updates are sent
  double epsilon = 0;   ///< that they cost; infinite without noise
};

/// One sentence for each thing that the policy does not allow; empty: it allows the run. Throws
/// UserError if the run has no owner of that name.
std::vector<std::string> policy_refusals(const Policy& policy, const AskedOfOwners& asked,
                                         std::span<const Crossing> crossings,
                                         std::span<const Owner> owners);

}  // namespace cleave::edge
