#pragma once

#include <optional>
#include <vector>

#include "cleave/plan/order/problem.h"

namespace cleave::plan::ordering {

/// How a device that is free chooses among what it could do.
struct Rule {
  enum class First { Input, Forward };
  enum class Chunk { Later, Earlier };

  First first = First::Input;  ///< between an I and an F that are both ready
  Chunk chunk = Chunk::Later;  ///< between F of two stages of the device
  bool eager_weight = false;   ///< W ahead of F
  double patience = 0;         ///< waits for an F or I that comes within this share of W
  bool reserve = true;         ///< an F that could get its device stuck waits
  std::vector<int> ahead;      ///< [stage] most F without their I; empty: no bound
};

/// Builds orders by running the pipeline forward in time, each device choosing by `rule`. Nothing
/// if memory gets stuck, which `reserve` rules out where one microbatch fits.
std::optional<Orders> list_schedule(const Problem& problem, const Rule& rule);

}  // namespace cleave::plan::ordering
