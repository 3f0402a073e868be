#pragma once

#include <chrono>
#include <optional>

#include "cleave/train/loop/device_report.h"
#include "cleave/train/loop/job.h"

namespace cleave::train {

/// How long the rounds of a server whose clients are apart take, of a run of any length.
class RoundTimes {
 public:
  void note_end();

  /// Seconds from one end to the next, of the newest rounds; nothing before the second.
  std::optional<double> median() const;

 private:
  using Clock = std::chrono::steady_clock;
  std::optional<Clock::time_point> last_end_;
  RecentValues seconds_;
};

/// What rounds have come to before the first, and after one more.
RunReport::Averaged before_the_first_round(const Job& job);
void add_round(const StepReport& round, RunReport::Averaged& averaged);

/// Seconds of a round whose clients are apart, on the server; nothing on a client. All processes
/// call it together, with what they report so far: what a round sends, and what a step of their own
/// takes.
std::optional<double> predicted_round(const Job& job, const RunReport& report);

}  // namespace cleave::train
