#pragma once

#include <optional>
#include <span>
#include <vector>

#include "cleave/schedule/program.h"

namespace cleave::schedule {

/// [stage] -> the number of edges on the longest path from it to an end of the graph, or the sum of
/// the `lengths` [stage] of the stages that follow on it; nothing if the edges form a cycle.
std::optional<std::vector<int>> longest_paths(int stages, std::span<const Edge> edges,
                                              std::span<const int> lengths = {});

/// Whether a device runs the microbatches of several replicas.
bool stands_for_several(const Topology& topology);

/// [edge] -> how many of its messages a sender may have on their way where no gradient ever tells
/// it that one has been read: the longest path to an end of the graph and one more, as 1F1B would
/// have. 0: no bound.
std::vector<int> unheard_windows(const Program& program, const Topology& topology);

/// The gradient kinds that follow from which stages are frozen, and edges whose gradient nobody
/// wants any more. A stage without edges into it that learns is full: its I goes through its own
/// layers. Throws UserError if a stage does not exist, or if nothing is left to learn.
void freeze(Program& program, std::span<const int> frozen);

/// Leaves the actions out that gradient kinds and absences do not ask for; a B of which one half is
/// left becomes that half. What is left keeps its order, so no dependency breaks and no more is
/// alive at once.
void leave_out_undemanded(Program& program);

}  // namespace cleave::schedule
