#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <vector>

namespace cleave::plan::oracle {

/// A pipeline as numbers. Stage s feeds stage s + 1. Shares no code with the library: it is what
/// the library's scheduler is measured against.
struct Pipeline {
  int devices = 0;
  int microbatches = 0;
  std::vector<int> device_of;                  ///< [stage]
  std::vector<std::array<double, 3>> seconds;  ///< [stage] F, I, W
  std::vector<double> delay;                   ///< [stage] from s to s + 1, and back
  std::vector<double> activation;              ///< [stage]
  std::vector<double> limit;                   ///< [device]
  /// The most that may lie between the first start and the last end of a device.
  double most_cost = std::numeric_limits<double>::infinity();
};

enum class Answer {
  NothingBetter,  ///< no order ends before the bound
  Better,         ///< `makespan` is the least there is, and below the bound
  GaveUp,         ///< too many states
};

struct Exact {
  Answer answer = Answer::GaveUp;
  double makespan = 0;
  std::int64_t states = 0;
};

/// The least makespan of all orders, by branch and bound over instructions in order of their start.
///
/// A partial order is dropped if its lower bound reaches the best known, or if another one has run
/// the same instructions and is nowhere later. `bound` is what is known to be possible.
Exact least_makespan(const Pipeline& pipeline, double bound, std::int64_t most_states);

}  // namespace cleave::plan::oracle
