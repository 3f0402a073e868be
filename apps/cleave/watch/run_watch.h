#pragma once

#include <mutex>
#include <optional>
#include <string>

#include "watch/dashboard.h"
#include "watch/run_history.h"

#include "cleave/report/tensorboard.h"
#include "cleave/train/loop/run.h"

namespace cleave::app {

/// What is written and served of a run besides its log: TensorBoard's files in train.out/tb, the
/// dashboard if it is wanted, and train.out/run.html at the end.
class RunWatch {
 public:
  /// `dashboard`: where it listens; nothing: there is none. Throws UserError if it cannot.
  RunWatch(const train::Config& config, const std::optional<comm::Address>& dashboard);

  /// Where the dashboard is; empty without one.
  std::string address() const;

  /// Once for every plan that the run has in the course of time.
  void on_compiled(const engine::CompiledStep& step);
  void on_step(const train::StepMetrics& metrics);  ///< of a line that the log has already
  void on_predicted(const train::TracedStep& step);
  void on_timeline(std::int64_t step, const train::TracedStep& timeline);
  void on_event(const std::string& text);
  void finish(const train::RunReport& report);

 private:
  std::string title() const;

  std::filesystem::path out_;
  mutable std::mutex mutex_;  ///< over history_: the dashboard reads it on its own threads
  RunHistory history_;
  train::TracedStep predicted_;  ///< as it is drawn under what was measured
  std::optional<report::TensorBoardFile> events_;
  std::optional<Dashboard> dashboard_;  ///< last: it ends first
};

}  // namespace cleave::app
