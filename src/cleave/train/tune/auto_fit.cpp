#include "cleave/train/tune/auto_fit.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "cleave/plan/time/simulator.h"
#include "cleave/plan/time/trace.h"
#include "cleave/train/step/trainer.h"

namespace cleave::train {
namespace {

/// Times a budget, by estimate: not worth compiling.
constexpr double kFarTooMuch = 1.25;

plan::PartitionProblem without_limits(plan::PartitionProblem problem) {
  for (plan::PipelineDevice& device : problem.devices)
    device.memory = std::numeric_limits<std::int64_t>::max() / 2;
  return problem;
}

/// A config counts layers: the embedding and the head are not among them.
std::vector<std::int64_t> layers_of(std::vector<std::int64_t> sizes) {
  --sizes.front();
  --sizes.back();
  return sizes;
}

std::vector<std::int64_t> sizes_of(const Config& config) {
  std::vector<std::int64_t> sizes = *config.parallel.partition;
  ++sizes.front();
  ++sizes.back();
  return sizes;
}

/// By estimate; the smallest device of each place counts.
void estimate_bytes(PlannedRun& run, const plan::PartitionProblem& problem) {
  const std::vector<std::int64_t> bytes = plan::partition_bytes(problem, sizes_of(run.config));
  for (std::size_t d = 0; d < bytes.size(); ++d) {
    const std::int64_t over = bytes[d] - problem.devices[d].memory;
    if (over <= run.excess) continue;
    run.excess = over;
    run.needed = bytes[d];
    run.device = compile_options(run.config).layout.mesh().device_at(static_cast<int>(d), 0);
  }
}

}  // namespace

double RunFitter::roomy_seconds(const Config& config) {
  const plan::PartitionProblem problem = without_limits(costs_.problem(config));
  const double seconds = config.parallel.partition
                             ? plan::partition_seconds(problem, sizes_of(config))
                             : plan::choose_partition(problem, plan::Effort::Bottleneck)->seconds;
  return seconds + costs_.after_pipeline(config);
}

/// Once more with a reserve if scratch and messages, which the cutting leaves out, were what did
/// not fit.
std::optional<PlannedRun> RunFitter::fitted(const Config& config, double limit) {
  const plan::PartitionProblem problem = costs_.problem(config);
  std::optional<PlannedRun> run = cut(config, problem, limit);
  if (!run || run->excess == 0 || config.parallel.partition) return run;
  const std::int64_t reserve = unforeseen(*run, problem);
  if (reserve == 0) return run;
  plan::PartitionProblem tighter = problem;
  for (plan::PipelineDevice& device : tighter.devices) device.memory -= reserve;
  if (!plan::choose_partition(tighter, plan::Effort::Refined)) return run;
  const std::optional<PlannedRun> again = cut(config, tighter, limit);
  return again && again->excess < run->excess ? again : run;
}

std::int64_t RunFitter::unforeseen(const PlannedRun& run,
                                   const plan::PartitionProblem& problem) const {
  std::int64_t most = 0;
  if (planned_.empty()) return most;
  const std::vector<std::int64_t> bytes = plan::partition_bytes(problem, sizes_of(run.config));
  for (std::size_t d = 0; d < bytes.size(); ++d) most = std::max(most, planned_[d] - bytes[d]);
  return most;
}

std::optional<PlannedRun> RunFitter::cut(const Config& config,
                                         const plan::PartitionProblem& problem, double limit) {
  planned_.clear();
  PlannedRun run{.config = config};
  if (config.parallel.partition) {
    run.seconds = plan::partition_seconds(problem, sizes_of(config));
  } else {
    std::optional<plan::PartitionChoice> choice = plan::choose_partition(problem);
    if (!choice) choice = plan::choose_partition(without_limits(problem));
    run.config.parallel.partition = layers_of(choice->sizes);
    run.seconds = choice->seconds;
  }
  run.seconds += costs_.after_pipeline(config);
  if (run.seconds > limit) return std::nullopt;
  estimate_bytes(run, problem);
  const double budget = static_cast<double>(run.needed - run.excess);
  if (run.excess > 0 && static_cast<double>(run.needed) > kFarTooMuch * budget) return run;
  return weighed(std::move(run));
}

PlannedRun RunFitter::weighed(PlannedRun run) {
  const Graph model = model_of(run.config);
  engine::CompileOptions options = compile_options(run.config);
  const std::vector<std::int64_t> budgets = options.budgets;
  // Only the search for an order needs to know them.
  if (options.layout.schedule != "auto") options.budgets.clear();
  const bool emulated = run.config.devices.emulate.has_value();
  // Emulated devices hold no model, but what it would take is known.
  if (!emulated || !budgets.empty()) {
    engine::CompiledStep step = engine::compile(model, options);
    step.budgets = budgets;
    plan_copies(run.config, step);
    note_bytes(run, step, budgets);
    if (!emulated) simulate(run, step);
  }
  if (emulated) simulate(run, engine::compile_emulated(model, options));
  return run;
}

void RunFitter::note_bytes(PlannedRun& run, const engine::CompiledStep& step,
                           const std::vector<std::int64_t>& budgets) {
  planned_ = step.planned_bytes;
  run.excess = std::numeric_limits<std::int64_t>::min();
  for (int d = 0; d < step.devices(); ++d) {
    const std::int64_t over = step.planned_on(d) - (budgets.empty() ? 0 : budgets[d]);
    if (over <= run.excess) continue;
    run.excess = over;
    run.needed = step.planned_on(d);
    run.device = d;
  }
  run.excess = budgets.empty() ? 0 : std::max<std::int64_t>(0, run.excess);
}

void RunFitter::simulate(PlannedRun& run, const engine::CompiledStep& step) {
  const plan::Trace trace =
      plan::simulate(step.program, costs_.costs(run.config, step),
                     {.record = plan::Record::DevicesOnly,
                      .at_once = costs_.at_once(run.config) / step.mesh.tensor});
  const plan::Summary summary = plan::summarise(step.program, trace);
  const double all = summary.makespan * static_cast<double>(summary.devices.size());
  double collective = 0;
  for (const plan::DeviceSummary& device : summary.devices) collective += device.collective;
  double again = 0;
  for (const plan::Span& span : trace.spans) {
    if (span.kind == plan::SpanKind::Compute && span.instruction.op == schedule::Op::Recompute)
      again += span.end - span.begin;
  }
  run.seconds = summary.makespan;
  run.bubble = summary.bubble_rate;
  run.idle = std::max(0.0, summary.idle - collective / all);
  run.communication = collective / all +
                      costs_.tensor_sums(run.config) * costs_.crowd(run.config) / summary.makespan;
  run.recompute = again / all;
}

}  // namespace cleave::train
