#pragma once

#include <vector>

#include "cleave/train/config/config.h"

namespace cleave::train {

/// The logical grids that "auto" in `config` may settle on, in the order in which they are tried:
/// the first in which some layout fits is that of the run. What is left open of data shards, tensor
/// shards and microbatch is given a value by shapes, budgets and counts, never by a clock, so that
/// a config has one grid, and one result, on every machine. The axes stay open.
///
/// - data shards: the largest power of two that the devices can share, so that every data degree is
///   in question; one, where their sums need too much memory;
/// - microbatch: the least of at least 512 tokens that leaves two to a shard; one sequence, where
///   memory is short;
/// - tensor shards: one, which costs nothing; more, where no device holds a layer.
///
/// With parallel.grid = "any" it is `config` alone: every grid is searched at once.
std::vector<Config> grids(const Config& config);

}  // namespace cleave::train
