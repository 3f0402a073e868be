#include "cleave/train/loop/round_times.h"

#include "cleave/train/step/owner_flow.h"
#include "cleave/train/step/round_clients.h"
#include "cleave/train/step/round_forecast.h"

namespace cleave::train {

void RoundTimes::note_end() {
  const Clock::time_point now = Clock::now();
  if (last_end_) seconds_.note(std::chrono::duration<double>(now - *last_end_).count());
  last_end_ = now;
}

std::optional<double> RoundTimes::median() const {
  return seconds_.empty() ? std::nullopt : std::optional(seconds_.median());
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
