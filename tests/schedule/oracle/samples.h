#pragma once

#include <random>
#include <string>

#include "cleave/schedule/program.h"

namespace cleave::schedule::oracle {

/// A sound program of any kind: any schedule, with or without replicas, segments, recompute,
/// sharded parameters, skip edges, labels, ties, buffers and budgets. `compute_only`: not lowered.
Program sample(std::mt19937& random, bool compute_only);

/// Changes one thing in the program: an instruction, a buffer, or the header. May leave it sound.
/// Returns what it did.
std::string mutate(Program& program, std::mt19937& random);

}  // namespace cleave::schedule::oracle
