#include "cleave/train/loop/round_times.h"

#include <algorithm>

#include "cleave/train/step/owner_flow.h"
#include "cleave/train/step/round_clients.h"
#include "cleave/train/step/round_forecast.h"

namespace cleave::train {

std::optional<double> RoundTimes::median() const {
  std::vector<double> seconds;
  for (std::size_t i = 1; i < ends_.size(); ++i)
    seconds.push_back(std::chrono::duration<double>(ends_[i] - ends_[i - 1]).count());
  if (seconds.empty()) return std::nullopt;
  const auto middle = seconds.begin() + std::ssize(seconds) / 2;
  std::ranges::nth_element(seconds, middle);
  return *middle;
}

RunReport::Averaged before_the_first_round(const Job& job) {
  const RoundBytes bytes = round_bytes(job.config, job.compiled.model);
  return {
      .clients = job.config.edge.client_count(), .up_bytes = bytes.up, .down_bytes = bytes.down};
}

void add_round(const StepReport& round, RunReport::Averaged& averaged) {
  ++averaged.rounds;
  averaged.participants += round.participants;
  averaged.local_steps += round.local_steps;
  averaged.absent += round.absent;
}

std::optional<double> predicted_round(const Job& job, const RunReport& report) {
  const std::optional<int> own = job.exchange->own();
  double local = 0;
  if (own) {
    const std::int64_t steps = local_steps(job.config, job.clients->windows_of(*own));
    const std::int64_t programs = job.config.train.batch / batch_of_program(job.config);
    local = *report.predicted_step_seconds * static_cast<double>(steps * programs);
  }
  const RoundLoad load{.down = report.averaged->down_bytes, .up = report.averaged->up_bytes};
  const double seconds = forecast_round(*job.exchange, load, local);
  return job.exchange->is_server() ? std::optional(seconds) : std::nullopt;
}

}  // namespace cleave::train
