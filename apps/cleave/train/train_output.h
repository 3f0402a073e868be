#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "watch/run_watch.h"

#include "cleave/report/progress.h"
#include "cleave/train/loop/metrics_log.h"
#include "cleave/train/loop/run.h"

namespace cleave::app {

/// What a user sees of a training run: plan, progress and summary on the terminal, JSON lines in
/// train.out/log.jsonl, and what a RunWatch makes of it. With --json all text goes to stderr and
/// the report alone to stdout, or with JsonLines what the log has before it.
class TrainOutput : public train::RunObserver {
 public:
  enum class Style : std::uint8_t { Text, Json, JsonLines };

  TrainOutput(const train::Config& config, Style style);
  ~TrainOutput() override;

  void on_compiled(const engine::CompiledStep& step) override;
  void on_features(const train::FeatureNews& news) override;
  void on_warning(const std::string& sentence) override;
  void on_resumed(std::int64_t step, const std::string& checkpoint,
                  const std::string& changed) override;
  void on_loaded(const std::filesystem::path& directory, double seconds) override;
  void on_step(const train::StepReport& step) override;
  void on_predicted(const train::TracedStep& step) override;
  void on_timeline(std::int64_t step, const train::TracedStep& timeline) override;
  void on_evaluated(std::int64_t step, const train::Evaluation& evaluation,
                    std::int64_t samples) override;
  void on_saved(std::int64_t step, const std::string& directory, double seconds) override;

  void on_stuck(const std::exception& error) override;

  /// From now on `watch` hears of the run too; it must outlive it.
  void show_on(RunWatch& watch) { watch_ = &watch; }

  void finish(const train::RunReport& report);

 private:
  void begin_progress();
  void write_log();

  const train::Config& config_;
  Style style_;
  std::FILE* text_;  ///< where people read
  RunWatch* watch_ = nullptr;
  std::unique_ptr<report::Progress> progress_;
  std::optional<train::MetricsLog> log_;
  std::optional<train::StepMetrics> line_;  ///< of the log, until it is known what belongs to it
  std::int64_t memory_ = 0;                 ///< the highest planned peak
  std::int64_t flops_ = 0;                  ///< of one step, all devices
  double matmul_rate_ = 0;  ///< FLOP/s of all devices, as far as the machine has cores for them
};

}  // namespace cleave::app
