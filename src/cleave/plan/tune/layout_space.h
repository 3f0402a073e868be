#pragma once

#include <cstdint>
#include <vector>

#include "cleave/plan/tune/analytic/layout.h"

namespace cleave::plan {

/// How the devices are divided, and whose state is divided with them. What is left to choose only
/// decides activations and time.
std::vector<Layout> divisions(const Workload& workload);

/// The ways to run `division`, but for recompute: microbatch, schedule, chunks, sequence
/// parallelism.
std::vector<Layout> runs(const Workload& workload, const Layout& division);

/// From the least to the most. With flash attention there are no scores for selective recompute to
/// drop.
std::vector<schedule::Recompute> recomputes(const Workload& workload);

}  // namespace cleave::plan
