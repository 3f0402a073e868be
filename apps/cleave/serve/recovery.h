#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace cleave::app {

/// The way from the end of a plan to the first step of the next, as the server sees it.
struct Recovery {
  using Clock = std::chrono::steady_clock;

  Clock::time_point noticed;                  ///< that the plan was over
  std::optional<Clock::time_point> given_up;  ///< nobody is at work on the old plan any more
  std::optional<Clock::time_point> planned;   ///< the next plan is proven
  std::optional<Clock::time_point> restored;  ///< every device has its share of the state
};

/// "step 21 is done, 412 ms after the notice: 20 ms until all had given up their step, 180 ms to
/// plan, 60 ms for the state, 152 ms for the step".
std::string describe(const Recovery& recovery, std::int64_t step, Recovery::Clock::time_point done);

}  // namespace cleave::app
