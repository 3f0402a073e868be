#include "train/train_output.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "command.h"
#include "train/train_summary.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "cleave/base/units.h"
#include "cleave/engine/measure/matmul_rate.h"

namespace cleave::app {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

TrainOutput::TrainOutput(const train::Config& config, Style style)
    : config_(config), style_(style), text_(style == Style::Json ? stderr : stdout) {}

TrainOutput::~TrainOutput() {
  if (progress_) progress_->finish();
}

void TrainOutput::on_compiled(const engine::CompiledStep& step) {
  if (watch_ != nullptr) watch_->on_compiled(step);
  for (std::int64_t bytes : step.planned_bytes) memory_ = std::max(memory_, bytes);
  flops_ = flops(step.model) * step.program.microbatches * step.program.replicas;
  matmul_rate_ =
      engine::matmul_rate(config_.train.dtype, static_cast<int>(config_.devices.threads)) *
      engine::devices_at_once(step.devices(), static_cast<int>(config_.devices.threads));
  fmt::print(text_, "{}", describe_plan(config_, step));
  std::fflush(text_);
}

void TrainOutput::on_warning(const std::string& sentence) {
  if (watch_ != nullptr) watch_->on_event("warning: " + sentence);
  fmt::print(stderr, "cleave: warning: {}\n", sentence);
}

void TrainOutput::on_resumed(std::int64_t step, const std::string& checkpoint,
                             const std::string& changed) {
  fmt::print(text_, "resumed after step {} from {}\n", step, checkpoint);
  if (!changed.empty()) fmt::print(text_, "not as it was: {}\n", changed);
}

void TrainOutput::on_step(const train::StepReport& step) {
  const std::filesystem::path path = std::filesystem::path(config_.train.out) / "log.jsonl";
  if (!log_) log_.emplace(path, step.step - 1);
  if (!progress_) {
    const int descriptor = fileno(text_);
    // mpirun gives its ranks a terminal of its own, whatever it writes to itself.
    const bool is_rank = config_.devices.transport == train::Transport::Mpi;
    progress_ = std::make_unique<report::Progress>(
        step.step - 1, config_.train.steps,
        is_rank ? report::Terminal{} : report::terminal_of(descriptor),
        is_rank ? report::Progress::Style::Lines : report::progress_style(descriptor),
        [this](std::string_view text) {
          std::fwrite(text.data(), 1, text.size(), text_);
          std::fflush(text_);
        });
  }
  const double tokens = static_cast<double>(config_.train.batch * config_.train.sequence);
  progress_->show({.step = step.step,
                   .loss = step.loss,
                   .gradient_norm = step.gradient_norm,
                   .lr = step.lr,
                   .tokens_per_second = tokens / step.seconds,
                   .limit_share = static_cast<double>(flops_) / step.seconds / matmul_rate_,
                   .memory_bytes = memory_},
                  now());
  const train::StepMetrics line{.step = step.step,
                                .loss = step.loss,
                                .gradient_norm = step.gradient_norm,
                                .lr = step.lr,
                                .tokens_per_second = tokens / step.seconds,
                                .seconds = step.seconds,
                                .memory_bytes = memory_};
  log_->write(line);
  if (watch_ != nullptr) watch_->on_step(line);
}

void TrainOutput::on_evaluated(std::int64_t step, double loss) {
  if (watch_ != nullptr) watch_->on_validation(step, loss);
  progress_->note(fmt::format("step {}: validation loss {:.4f}", step, loss));
}

void TrainOutput::on_saved(std::int64_t step, const std::string& directory, double seconds) {
  if (watch_ != nullptr) watch_->on_event(fmt::format("step {}: saved {}", step, directory));
  if (progress_) {
    progress_->note(fmt::format("step {}: saved {} (training paused for {})", step, directory,
                                format_seconds(seconds)));
  }
}

void TrainOutput::on_stuck(const std::exception& error) {
  fmt::print(stderr, "cleave: {}\n", error.what());
  std::fflush(nullptr);
  std::_Exit(static_cast<int>(exit_code_of(error)));
}

void TrainOutput::finish(const train::RunReport& report) {
  if (watch_ != nullptr) watch_->finish(report);
  if (progress_) progress_->finish();
  progress_.reset();
  if (style_ == Style::Json) {
    fmt::print("{}\n", to_json(report).dump());
  } else {
    fmt::print("{}", describe_report(report));
  }
}

}  // namespace cleave::app
