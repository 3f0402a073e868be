#include "cleave/train/tune/run_oracle.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "cleave/comm/early_bytes.h"
#include "cleave/plan/time/simulator.h"
#include "cleave/plan/time/trace.h"
#include "cleave/plan/tune/partition.h"
#include "cleave/train/config/config_checks.h"
#include "cleave/train/step/trainer.h"
#include "cleave/train/tune/auto_space.h"
#include "cleave/train/tune/look_ahead.h"

namespace cleave::train {
namespace {

/// Times a budget, by estimate: not worth compiling.
constexpr double kFarTooMuch = 1.25;

constexpr std::int64_t kUnlimitedBytes = std::numeric_limits<std::int64_t>::max();

plan::PartitionProblem without_limits(plan::PartitionProblem problem) {
  for (plan::PipelineDevice& device : problem.devices)
    device.memory = std::numeric_limits<std::int64_t>::max() / 2;
  return problem;
}

/// Takes note of a device that lacks more than those before it.
void note(plan::Prediction& run, int device, std::int64_t bytes, std::int64_t budget) {
  if (bytes - budget <= run.memory_bytes - run.budget_bytes) return;
  run.device = device;
  run.memory_bytes = bytes;
  run.budget_bytes = budget;
}

/// Estimates what each place needs; its smallest device counts.
void estimate_bytes(plan::Prediction& run, const plan::PartitionProblem& problem) {
  const std::vector<std::int64_t> bytes =
      plan::partition_bytes(problem, plan::with_ends(run.layout.partition));
  const Mesh mesh = run.layout.mesh();
  for (std::size_t d = 0; d < bytes.size(); ++d)
    note(run, mesh.device_at(PlaceId{static_cast<int>(d)}, 0), bytes[d], problem.devices[d].memory);
}

/// Where no order fits, `options` lose their budgets, and the order is that of devices without
/// them.
engine::CompiledStep compile_anyway(const Graph& model, engine::CompileOptions& options) {
  try {
    return engine::compile(model, options);
  } catch (const DoesNotFit&) {
    if (options.budgets.empty()) throw;
  }
  options.budgets.clear();
  return engine::compile(model, options);
}

/// Takes the bytes of the plan that was compiled.
void note_bytes(plan::Prediction& run, const engine::CompiledStep& step) {
  run.planned = step.planned_bytes;
  for (int d = 0; d < step.devices(); ++d)
    note(run, d, step.planned_on(d), step.budgets.empty() ? kUnlimitedBytes : step.budgets[d]);
}

/// What the compiled plan needs beyond the estimate, on the place where that is most; 0 if nothing
/// was compiled.
std::int64_t unforeseen(const plan::Prediction& run, const plan::PartitionProblem& problem) {
  std::int64_t most = 0;
  if (run.planned.empty()) return most;
  const std::vector<std::int64_t> bytes =
      plan::partition_bytes(problem, plan::with_ends(run.layout.partition));
  for (std::size_t d = 0; d < bytes.size(); ++d) most = std::max(most, run.planned[d] - bytes[d]);
  return most;
}

}  // namespace

double RunOracle::bound(const plan::Layout& layout) {
  const Config config = with_layout(*grid_, layout);
  return LayoutCosts(config, devices_).bound();
}

double RunOracle::roomy_seconds(const plan::Layout& layout) {
  const Config config = with_layout(*grid_, layout);
  check(config, std::nullopt);
  LayoutCosts costs(config, devices_);
  if (layout.replicas_differ()) return costs.bound() + costs.after_pipeline();
  const plan::PartitionProblem problem = without_limits(costs.problem());
  const double seconds = layout.partition.empty()
                             ? plan::choose_partition(problem, plan::Effort::Bottleneck)->seconds
                             : plan::partition_seconds(problem, plan::with_ends(layout.partition));
  return seconds + costs.after_pipeline();
}

/// Modules with replicas of their own are cut by their operations. All others are cut once more
/// with a reserve if scratch and messages, which the cutting leaves out, were what did not fit.
std::optional<plan::Prediction> RunOracle::predict(const plan::Layout& layout, double limit) {
  const Config config = with_layout(*grid_, layout);
  if (layout.replicas_differ()) return weighed(config);
  const plan::PartitionProblem problem = LayoutCosts(config, devices_).problem();
  std::optional<plan::Prediction> run = cut(config, problem, limit);
  if (!run || run->fits() || !layout.partition.empty()) return run;
  const std::int64_t reserve = unforeseen(*run, problem);
  if (reserve == 0) return run;
  plan::PartitionProblem tighter = problem;
  for (plan::PipelineDevice& device : tighter.devices) device.memory -= reserve;
  if (!plan::choose_partition(tighter, plan::Effort::Refined)) return run;
  std::optional<plan::Prediction> again = cut(config, tighter, limit);
  return again && again->excess() < run->excess() ? again : run;
}

std::optional<plan::Prediction> RunOracle::cut(const Config& config,
                                               const plan::PartitionProblem& problem,
                                               double limit) {
  plan::Prediction run{.layout = compile_options(config).layout};
  if (config.parallel.partition) {
    run.step_seconds = plan::partition_seconds(problem, plan::with_ends(run.layout.partition));
  } else {
    std::optional<plan::PartitionChoice> choice = plan::choose_partition(problem);
    if (!choice) choice = plan::choose_partition(without_limits(problem));
    run.layout.partition = plan::without_ends(choice->sizes);
    run.step_seconds = choice->seconds;
  }
  run.step_seconds += LayoutCosts(config, devices_).after_pipeline();
  if (run.step_seconds > limit) return std::nullopt;
  estimate_bytes(run, problem);
  if (static_cast<double>(run.memory_bytes) > kFarTooMuch * static_cast<double>(run.budget_bytes))
    return run;
  return weighed(with_layout(config, run.layout));
}

bool RunOracle::has_latency_to_hide(const Config& config) {
  return leaves_look_ahead_open(config) && config.parallel.placement == Placement::Even &&
         LayoutCosts(config, devices_).slowest_latency() >= kWorthHiding;
}

plan::Prediction RunOracle::weighed(const Config& config) {
  if (!has_latency_to_hide(config)) return weigh(config);
  return hide_latency(config, [this](const Config& each) { return weigh(each); });
}

plan::Prediction RunOracle::weigh(const Config& config) {
  const Graph model = model_of(config);
  engine::CompileOptions options = compile_options(config);
  plan::Prediction run{.layout = options.layout};
  const std::vector<std::int64_t> budgets = options.budgets;
  // Only the search for an order needs to know them.
  if (options.layout.schedule != "auto") options.budgets.clear();
  const bool emulated = config.devices.emulate.has_value();
  // Emulated devices hold no model, but what it would take is known.
  if (!emulated || !budgets.empty()) {
    engine::CompiledStep step = compile_anyway(model, options);
    step.budgets = budgets;
    plan_copies(config, step);
    note_bytes(run, step);
    if (!emulated) simulate(run, config, step);
  }
  if (emulated) simulate(run, config, engine::compile_emulated(model, options));
  return run;
}

void RunOracle::simulate(plan::Prediction& run, const Config& config,
                         const engine::CompiledStep& step) {
  LayoutCosts costs(config, devices_);
  // Emulated messages wait for their credit.
  const std::int64_t early = config.devices.emulate ? 0 : comm::kEarlyBytes;
  const plan::Trace trace = plan::simulate(step.program, costs.costs(step),
                                           {.links = plan::Links::Serialised,
                                            .record = plan::Record::DevicesOnly,
                                            .at_once = costs.places_at_once(),
                                            .early_bytes = early});
  const plan::Summary summary = plan::summarise(step.program, trace);
  const double devices = static_cast<double>(summary.devices.size());
  double collective = 0;
  for (const plan::DeviceSummary& device : summary.devices) collective += device.collective;
  double again = 0;
  for (const plan::Span& span : trace.spans) {
    if (span.kind == plan::SpanKind::Compute && span.instruction.op == schedule::Op::Recompute)
      again += span.end - span.begin;
  }
  run.step_seconds = summary.makespan;
  run.bubble_rate = summary.bubble_rate;
  plan::TimeParts& parts = run.parts;
  parts.data_communication = collective / devices;
  parts.bubble = std::max(0.0, summary.idle * summary.makespan - parts.data_communication);
  parts.tensor_communication = costs.crowded_sums();
  parts.recompute = again / devices;
  parts.arithmetic = summary.makespan - parts.all();
}

}  // namespace cleave::train
