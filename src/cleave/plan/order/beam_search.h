#pragma once

#include <cstdint>
#include <vector>

#include "cleave/plan/order/problem.h"

namespace cleave::plan::ordering {

/// Builds orders instruction by instruction, in order of their start, keeping at every step the
/// `width` partial orders with the least lower bound of their makespan. Returns the `most` best
/// complete ones; none if memory got stuck everywhere.
std::vector<Orders> beam_search(const Problem& problem, int width, int most);

}  // namespace cleave::plan::ordering
