#include "serve/served_output.h"

#include <utility>

#include "serve/run_events.h"
#include "streams.h"
#include "train/train_summary.h"
#include <fmt/format.h>

#include "cleave/train/tune/auto_plan.h"

namespace cleave::app {
namespace {

// A device that shows no life for so many predicted steps is lost.
constexpr double kSilentSteps = 20;

}  // namespace

comm::Clock::duration longest_silence(double step_seconds) {
  const std::chrono::duration<double> silence(kSilentSteps * step_seconds);
  return std::chrono::duration_cast<comm::Clock::duration>(silence);
}

ServedOutput::ServedOutput(const train::Config& config, Style style, comm::Server& server,
                           ServedProgress& progress, NoteEvent note_event)
    : TrainOutput(config, style),
      config_(config),
      server_(server),
      progress_(progress),
      note_event_(std::move(note_event)) {
  progress_.status.plan = progress_.epochs + 1;
  progress_.status.steps = config.train.steps;
  progress_.status.layout = train::describe(config);
  progress_.status.lack.clear();
}

void ServedOutput::on_compiled(const engine::CompiledStep& step) {
  TrainOutput::on_compiled(step);
  progress_.status.parts.clear();
  for (int device = 0; device < step.devices(); ++device)
    progress_.status.parts.push_back(stages_on(step, device));
  // One device of the program stands for whichever client has its turn.
  if (config_.edge.in_order)
    progress_.status.parts.resize(static_cast<std::size_t>(config_.edge.client_count()) + 1,
                                  std::string(progress_.status.parts.back()));
  server_.publish(progress_.status);
}

void ServedOutput::on_predicted(double step_seconds) {
  server_.set_silence(longest_silence(step_seconds));
}

void ServedOutput::on_resumed(std::int64_t step, const std::string& from,
                              const std::string& changed) {
  TrainOutput::on_resumed(step, from, changed);
  if (progress_.epochs == 0) return;
  if (progress_.recovery) progress_.recovery->restored = Recovery::Clock::now();
  const std::string text = fmt::format("goes on after step {} from {}", step, from);
  complain("cleave serve: {}\n", text);
  note_event_(event_now("state", step, text));
}

void ServedOutput::on_step(const train::StepReport& step) {
  // Once the log of the steps is open nobody else writes to it.
  for (const train::RunEvent& event : std::exchange(progress_.early, {})) note_event_(event);
  if (progress_.recovery) {
    const std::string text = describe(*progress_.recovery, step.step, Recovery::Clock::now());
    complain("cleave serve: {}\n", text);
    note_event_(event_now("recovered", step.step - 1, text));
    progress_.recovery.reset();
  }
  TrainOutput::on_step(step);
  progress_.step = step.step;
  progress_.status.step = step.step;
  progress_.status.loss = step.loss;
  progress_.status.step_seconds = step.seconds;
  server_.publish(progress_.status);
}

void ServedOutput::on_saved(std::int64_t step, const std::string& directory, double pause) {
  TrainOutput::on_saved(step, directory, pause);
  progress_.saved = directory;
}

}  // namespace cleave::app
