#include "serve/recovery.h"

#include <fmt/format.h>

#include "cleave/base/units.h"

namespace cleave::app {

std::string describe(const Recovery& recovery, std::int64_t step,
                     Recovery::Clock::time_point done) {
  const auto seconds = [](Recovery::Clock::time_point from, Recovery::Clock::time_point to) {
    return format_seconds(std::chrono::duration<double>(to - from).count());
  };
  std::string text =
      fmt::format("step {} is done, {} after the notice", step, seconds(recovery.noticed, done));
  Recovery::Clock::time_point before = recovery.noticed;
  const auto add = [&](std::optional<Recovery::Clock::time_point> until, const char* what) {
    if (!until) return;  // as the state of a run that begins again
    text += fmt::format("{} {} {}", before == recovery.noticed ? ":" : ",", seconds(before, *until),
                        what);
    before = *until;
  };
  add(recovery.given_up, "until all had given up their step");
  add(recovery.planned, "to plan");
  add(recovery.restored, "for the state");
  add(done, "for the step");
  return text;
}

}  // namespace cleave::app
