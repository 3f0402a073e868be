#include "plan/plan_config.h"

#include <algorithm>
#include <chrono>

#include "files.h"
#include "json_text.h"
#include "plan/memory_bar.h"
#include "ranks.h"
#include "streams.h"
#include "train/auto_summary.h"
#include "train/train_summary.h"
#include "train/train_trace.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cleave/base/units.h"
#include "cleave/comm/together.h"
#include "cleave/report/text_table.h"
#include "cleave/train/loop/forecast.h"
#include "cleave/train/step/trainer.h"
#include "cleave/train/tune/auto_plan.h"

namespace cleave::app {
namespace {

using train::Config;

/// A config with everything decided, and what the planner considered on the way.
struct Decision {
  Config config;
  train::AutoPlan plan;
  double seconds = 0;  ///< that planning took

  bool searched() const { return plan.considered > 0; }
};

/// What the answer says of the step: where layouts were weighed against each other, what the chosen
/// one was chosen for.
struct StepTime {
  double seconds;
  double bubble_rate;

  StepTime(const Decision& decision, const train::Forecast& forecast)
      : seconds(forecast.predicted.summary.makespan),
        bubble_rate(forecast.predicted.summary.bubble_rate) {
    if (!decision.searched()) return;
    const plan::Prediction& chosen = decision.plan.choice().predicted;
    seconds = chosen.step_seconds;
    bubble_rate = chosen.bubble_rate;
  }
};

Decision decide(const Config& config, comm::Launcher& launcher) {
  const auto start = std::chrono::steady_clock::now();
  Decision decision{.config = config};
  if (needs_plan(config)) {
    decision.plan = train::plan_run(config, launcher);
    decision.config = decision.plan.choice().config;
  } else {
    decision.config = train::with_latency_hidden(config, launcher);
  }
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  decision.seconds = taken.count();
  return decision;
}

nlohmann::json json_of(const Config& config) {
  const train::ParallelConfig& p = config.parallel;
  nlohmann::json json = {
      {"tp", *p.tensor},
      {"pp", *p.pipeline},
      {"dp", *p.data},
      {"microbatch", *config.train.microbatch},
      {"chunks", p.chunks.value_or(1)},
      {"schedule", p.schedule},
      {"receive_ahead", p.receive_ahead.value_or(1)},
      {"early", p.early.value_or(0)},
      {"zero", *p.zero},
      {"recompute", recompute_name(train::compile_options(config).layout)},
      {"partition", p.partition ? nlohmann::json(*p.partition) : nlohmann::json("auto")}};
  if (p.placement == Placement::Own) json["vision_pp"] = *p.vision_pipeline;
  if (p.vision_data) json["vision_dp"] = *p.vision_data;
  if (p.degrees_differ()) json["vision_tp"] = *p.vision_tensor;
  return json;
}

/// What was left to the schedule or to the planner as it came out.
nlohmann::json layout_of(const Config& config, const engine::CompiledStep& step) {
  std::vector<std::int64_t> layers;
  for (const auto& segments : step.stages)
    layers.push_back(std::ranges::count(segments, true, &SegmentSpec::block));
  nlohmann::json json = json_of(config);
  json["partition"] = layers;
  json["chunks"] = step.program.stages / *config.parallel.pipeline;
  return json;
}

std::string to_json(const Decision& decision, const train::Forecast& forecast) {
  const engine::CompiledStep& step = forecast.step;
  const double seconds = StepTime(decision, forecast).seconds;
  const double microbatches =
      static_cast<double>(step.program.microbatches) * step.program.replicas;
  const double flop = static_cast<double>(flops(step.model)) * microbatches;
  std::vector<std::int64_t> planned;
  for (int d = 0; d < step.devices(); ++d) planned.push_back(step.planned_on(d));
  nlohmann::json candidates = nlohmann::json::array();
  for (const auto* runs : {&decision.plan.fitting, &decision.plan.unfit}) {
    for (const auto& [run, predicted] : *runs)
      candidates.push_back({{"layout", json_of(run)},
                            {"step_seconds", predicted.step_seconds},
                            {"bubble", predicted.bubble_rate},
                            {"idle", predicted.parts.bubble / predicted.step_seconds},
                            {"communication", plan::communication_share(predicted)},
                            {"memory_bytes", predicted.memory_bytes},
                            {"lacks_bytes", predicted.excess()},
                            {"fits", predicted.fits()}});
  }
  const nlohmann::json json = {{"step_seconds", seconds},
                               {"tflops_per_device", flop / seconds / step.devices() / 1e12},
                               {"memory_bytes", std::ranges::max(planned)},
                               {"planned_bytes", planned},
                               {"budget_bytes", step.budgets},
                               {"fits", forecast.fits},
                               {"layout", layout_of(decision.config, step)},
                               {"candidates", candidates},
                               {"layouts", decision.plan.considered},
                               {"search_seconds", decision.seconds}};
  return json_text(json, 2);
}

std::string memory_bars(const engine::CompiledStep& step) {
  std::vector<std::vector<std::string>> rows = {{"device", "planned", "budget", ""}};
  for (int d = 0; d < step.devices(); ++d) {
    const bool limited = !step.budgets.empty();
    const double planned = static_cast<double>(step.planned_on(d));
    rows.push_back({std::to_string(d), format_bytes(step.planned_on(d)),
                    limited ? format_bytes(step.budgets[d]) : "none",
                    limited ? memory_bar(planned / static_cast<double>(step.budgets[d])) : ""});
  }
  return report::text_table(rows);
}

std::string to_text(const Decision& decision, const train::Forecast& forecast) {
  std::string text = candidate_table(decision.plan);
  text += describe_plan(decision.config, forecast.step) + "\n" + memory_bars(forecast.step);
  const StepTime step(decision, forecast);
  return text + fmt::format("\n{} per step predicted, bubble {}\n", format_seconds(step.seconds),
                            format_share(step.bubble_rate));
}

Config load(const PlanConfigFlags& flags, const comm::Launcher& launcher) {
  if (!flags.trace.empty()) check_trace_name(flags.trace);
  train::ConfigOptions options{.overrides = flags.set};
  options.world_size = launcher.devices();
  return train::load_config(flags.config, options);
}

void write(const PlanConfigFlags& flags, const Decision& decision,
           const train::Forecast& forecast) {
  write_file("", flags.json ? to_json(decision, forecast) : to_text(decision, forecast));
  if (!flags.trace.empty()) {
    train::RunReport report;
    report.predicted = forecast.predicted;
    write_trace(flags.trace, report);
  }
  if (!forecast.fits) complain("cleave: {}\n", describe_excess(decision.plan, forecast.step));
}

}  // namespace

void plan_config(const PlanConfigFlags& flags, Exit& answer) {
  on_ranks([&](comm::Launcher& launcher) {
    comm::Communicator& processes = launcher.processes();
    Config config;
    comm::together(processes, [&] { config = load(flags, launcher); });
    prepare_measuring(flags.remeasure, launcher);
    const Decision decision = decide(config, launcher);
    const train::Forecast forecast = train::forecast(decision.config, launcher);
    if (!forecast.fits) answer = Exit::DoesNotFit;
    // Nobody leaves, which with a code would end the job, before the answer is written.
    comm::together(processes, [&] {
      if (processes.rank() == 0) write(flags, decision, forecast);
    });
  });
}

}  // namespace cleave::app
