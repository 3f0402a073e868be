#include "watch/run_watch.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <nlohmann/json.hpp>

#include "cleave/base/file.h"
#include "cleave/report/lanes.h"

namespace cleave::app {
namespace {

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// What a browser reads and draws in one frame.
constexpr std::size_t kStepsAtOnce = 1000;

/// Pixels of a lane.
constexpr int kLaneColumns = 800;

}  // namespace

RunWatch::RunWatch(const train::Config& config, const std::optional<comm::Address>& dashboard)
    : out_(config.train.out) {
  history_.name = (out_ / "").parent_path().filename().string();
  history_.config = train::to_toml(config);
  history_.steps = config.train.steps;
  if (!dashboard) return;
  const auto data = [this](std::int64_t after, std::int64_t lanes) {
    const std::lock_guard lock(mutex_);
    const Known known{.step = after, .lanes = lanes, .most_steps = kStepsAtOnce};
    const nlohmann::json all = {{"runs", nlohmann::json::array({to_json(history_, known)})}};
    return all.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  };
  const auto metrics = [this] {
    const std::lock_guard lock(mutex_);
    return metrics_text(history_);
  };
  dashboard_.emplace(*dashboard,
                     DashboardPages{.page = [this] { return run_page(title(), {}, Watch::Live); },
                                    .data = data,
                                    .metrics = metrics});
}

std::string RunWatch::title() const {
  return "cleave: " + history_.name;
}

std::string RunWatch::address() const {
  return dashboard_ ? dashboard_->address() : "";
}

void RunWatch::on_compiled(const engine::CompiledStep& step) {
  const std::lock_guard lock(mutex_);
  history_.devices.clear();
  for (int d = 0; d < step.devices(); ++d) {
    history_.devices.push_back({.planned_bytes = step.planned_on(d),
                                .budget_bytes = step.budgets.empty() ? 0 : step.budgets[d],
                                .sent_bytes = step.traffic.empty() ? 0 : step.traffic[d].total()});
  }
}

void RunWatch::on_step(const train::StepMetrics& metrics) {
  const double now = seconds_since_1970();
  // After the loss of a device some steps are done again; no other thread changes the lines.
  const bool again = !history_.lines.empty() && history_.lines.back().step >= metrics.step;
  if (!events_ || again)
    events_.emplace(out_ / "tb", now, again || metrics.step > 1 ? metrics.step : 0);
  report::TensorBoardFile::Scalars scalars = {{"loss", metrics.loss},
                                              {"gradient_norm", metrics.gradient_norm},
                                              {"lr", metrics.lr},
                                              {"tokens_per_second", metrics.tokens_per_second}};
  if (metrics.validation_loss) scalars.emplace_back("validation_loss", *metrics.validation_loss);
  if (metrics.accuracy) scalars.emplace_back("accuracy", *metrics.accuracy);
  events_->write(metrics.step, now, scalars);
  const std::lock_guard lock(mutex_);
  // A resumed run shows what came before as well.
  if (history_.lines.empty() && metrics.step > 1) {
    const std::vector<std::string> fresh = std::exchange(history_.events, {});
    read_log(out_ / "log.jsonl", history_);
    for (const std::string& event : fresh) {
      if (std::ranges::find(history_.events, event) == history_.events.end())
        note_event(history_, event);
    }
  }
  note_step(history_, metrics);
}

void RunWatch::on_predicted(const train::TracedStep& step) {
  predicted_ = step;
  const std::lock_guard lock(mutex_);
  history_.predicted_seconds = step.summary.makespan;
}

void RunWatch::on_timeline(std::int64_t step, const train::TracedStep& timeline) {
  const double seconds = timeline.summary.makespan;
  const double predicted = predicted_.summary.makespan;
  const double until = std::max(seconds, predicted);
  RunHistory::Lanes lanes{.step = step,
                          .seconds = seconds,
                          .predicted_seconds = predicted,
                          .measured = report::lanes(timeline.trace, until, kLaneColumns),
                          .predicted = report::lanes(predicted_.trace, until, kLaneColumns)};
  const std::lock_guard lock(mutex_);
  history_.lanes = std::move(lanes);
}

void RunWatch::on_event(const std::string& text) {
  const std::lock_guard lock(mutex_);
  note_event(history_, text);
}

void RunWatch::finish(const train::RunReport& report) {
  const std::lock_guard lock(mutex_);
  if (report.predicted_step_seconds) history_.predicted_seconds = report.predicted_step_seconds;
  for (std::size_t d = 0; d < report.devices.size() && d < history_.devices.size(); ++d) {
    history_.devices[d].peak_bytes = report.devices[d].peak_bytes;
    history_.devices[d].busy = report.devices[d].busy;
    history_.devices[d].wait = report.devices[d].wait;
  }
  history_.done = true;
  if (history_.lines.empty()) return;
  write_text_atomically(out_ / "run.html", run_page(title(), {history_}, Watch::Ended));
}

}  // namespace cleave::app
