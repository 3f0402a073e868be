#include "train/train_output.h"

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "command.h"
#include "json_text.h"
#include "signals.h"
#include "streams.h"
#include "train/run_summary.h"
#include "train/train_summary.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "cleave/base/units.h"
#include "cleave/engine/measure/devices_at_once.h"
#include "cleave/engine/measure/matmul_rate.h"

namespace cleave::app {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// "14:03:07", as the clock on the wall has it.
std::string time_of_day() {
  const std::time_t seconds = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&seconds, &local);
  return fmt::format("{:02}:{:02}:{:02}", local.tm_hour, local.tm_min, local.tm_sec);
}

}  // namespace

TrainOutput::TrainOutput(const train::Config& config, Style style)
    : config_(config), style_(style), text_(style == Style::Text ? stdout : stderr) {}

TrainOutput::~TrainOutput() {
  watch_ = nullptr;  // it may have gone before us
  try {
    write_log();  // of a step whose validation failed
  } catch (const IoError&) {
    // What ended the run is said already.
  }
  if (progress_) progress_->finish();
}

void TrainOutput::on_compiled(const engine::CompiledStep& step) {
  stop_on_signals();
  if (watch_ != nullptr) watch_->on_compiled(step);
  for (std::int64_t bytes : step.planned_bytes) memory_ = std::max(memory_, bytes);
  flops_ = flops(step.model) * step.program.microbatches * step.program.replicas;
  const std::vector<bool> optional = optional_segments(step.model);
  for (std::size_t s = 0; s < optional.size(); ++s)
    if (optional[s])
      flops_ -= static_cast<std::int64_t>(step.left_out() *
                                          static_cast<double>(flops(step.model.segments[s])) *
                                          step.program.microbatches * step.program.replicas);
  matmul_rate_ =
      engine::matmul_rate(config_.train.dtype, static_cast<int>(config_.devices.threads)) *
      engine::devices_at_once(std::array{engine::place_of_this_process()}, step.devices(),
                              static_cast<int>(config_.devices.threads));
  print_text(text_, describe_plan(config_, step));
}

/// A line at the beginning, and one whenever another tenth is done.
void TrainOutput::on_features(const train::FeatureNews& news) {
  if (news.done == news.known) {
    print_text(text_,
               fmt::format("keeps what the tower gives in {} ({}): {} of {} are there, {} to "
                           "compute, once; no step computes the tower\n",
                           news.path, format_bytes(news.bytes), news.known,
                           counted(news.images, "image"), news.images - news.known));
    return;
  }
  const std::int64_t computed = news.images - news.known;
  const auto tenths = [&](std::int64_t done) { return 10 * (done - news.known) / computed; };
  if (tenths(news.done) > tenths(news.done - 1))
    print_text(text_, fmt::format("  {} of {}\n", news.done, counted(news.images, "image")));
}

void TrainOutput::on_warning(const std::string& sentence) {
  if (watch_ != nullptr) watch_->on_event("warning: " + sentence);
  complain("cleave: warning: {}\n", sentence);
}

void TrainOutput::on_resumed(std::int64_t step, const std::string& checkpoint,
                             const std::string& changed) {
  print_text(text_, fmt::format("resumed after step {} from {}\n", step, checkpoint));
  if (!changed.empty()) print_text(text_, fmt::format("not as it was: {}\n", changed));
}

void TrainOutput::on_loaded(const std::filesystem::path& directory, double seconds) {
  print_text(text_, fmt::format("read {} in {}\n", directory.string(), format_seconds(seconds)));
}

void TrainOutput::begin_progress() {
  const int descriptor = fileno(text_);
  // mpirun gives its ranks a terminal of its own, whatever it writes to itself.
  const bool is_rank = config_.devices.transport == train::Transport::Mpi;
  progress_ = std::make_unique<report::Progress>(
      config_.train.steps, [descriptor] { return report::terminal_of(descriptor); },
      is_rank ? report::Progress::Style::Lines : report::progress_style(descriptor),
      [this](std::string_view text) { print_text(text_, text); });
}

void TrainOutput::on_step(const train::StepReport& step) {
  const std::filesystem::path path = std::filesystem::path(config_.train.out) / "log.jsonl";
  if (!log_) log_.emplace(path, step.step - 1);
  if (!progress_) begin_progress();
  const double tokens =
      static_cast<double>(config_.train.batch * config_.train.sequence * step.local_steps);
  progress_->show({.step = step.step,
                   .loss = step.loss,
                   .gradient_norm = step.gradient_norm,
                   .lr = step.lr,
                   .tokens = tokens,
                   .seconds = step.seconds,
                   .limit_seconds = static_cast<double>(flops_ * step.local_steps) / matmul_rate_,
                   .memory_bytes = memory_,
                   .epochs = step.epochs,
                   .last = step.stop},
                  now(), time_of_day());
  if (step.skipped) {
    progress_->note(fmt::format(
        "step {}: the loss or the gradient norm is not finite; the step was left out", step.step));
  }
  line_ = {.step = step.step,
           .loss = step.loss,
           .gradient_norm = step.gradient_norm,
           .lr = step.lr,
           .tokens_per_second = tokens / step.seconds,
           .seconds = step.seconds,
           .wait = step.wait,
           .epochs = step.epochs,
           .memory_bytes = memory_};
  if (!step.evaluates) write_log();
}

void TrainOutput::on_predicted(const train::TracedStep& step) {
  if (watch_ != nullptr) watch_->on_predicted(step);
}

void TrainOutput::on_timeline(std::int64_t step, const train::TracedStep& timeline) {
  if (watch_ != nullptr) watch_->on_timeline(step, timeline);
}

void TrainOutput::write_log() {
  if (!line_) return;
  log_->write(*line_);
  if (watch_ != nullptr) watch_->on_step(*line_);
  if (style_ == Style::JsonLines) print_text(stdout, train::line_of(*line_));
  line_.reset();
}

void TrainOutput::on_evaluated(std::int64_t step, const train::Evaluation& evaluation,
                               std::int64_t samples) {
  const std::string accuracy =
      evaluation.accuracy ? fmt::format(", accuracy {:.2f} %", 100 * *evaluation.accuracy) : "";
  progress_->note(
      fmt::format("step {}: validation loss {:.4f}{} over {}", step, evaluation.loss, accuracy,
                  counted(samples, config_.model.kind->reads_tokens ? "sequence" : "image")));
  line_->validation_loss = evaluation.loss;
  line_->accuracy = evaluation.accuracy;
  write_log();
}

void TrainOutput::on_saved(std::int64_t step, const std::string& directory, double seconds) {
  if (watch_ != nullptr) watch_->on_event(fmt::format("step {}: saved {}", step, directory));
  if (progress_) {
    progress_->note(fmt::format("step {}: saved {} (training paused for {})", step, directory,
                                format_seconds(seconds)));
  }
}

void TrainOutput::on_stuck(const std::exception& error) {
  complain("cleave: {}\n", sentence_of(error));
  std::fflush(nullptr);
  std::_Exit(static_cast<int>(exit_code_of(error)));
}

void TrainOutput::finish(const train::RunReport& report) {
  if (watch_ != nullptr) watch_->finish(report);
  if (progress_) progress_->finish();
  progress_.reset();
  if (style_ != Style::Text) {
    print_text(stdout, json_text(to_json(report)));
  } else {
    print_text(stdout, describe_report(report));
  }
}

}  // namespace cleave::app
