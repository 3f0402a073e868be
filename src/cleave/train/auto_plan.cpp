#include "cleave/train/auto_plan.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "cleave/base/check.h"
#include "cleave/base/units.h"
#include "cleave/plan/search/partition_search.h"
#include "cleave/plan/stage_layout.h"
#include "cleave/runtime/matmul_rate.h"
#include "cleave/train/auto_choices.h"
#include "cleave/train/config_checks.h"
#include "cleave/train/segment_profile.h"
#include "cleave/train/trainer.h"

namespace cleave::train {
namespace {

constexpr std::size_t kFitting = 3;  ///< how many that fit are looked for

/// Between threads of one process; what a run sees is measured before its first step.
constexpr plan::LinkCosts kLink = {.latency = 20e-6, .per_byte = 0.2e-9};

bool uneven(const auto& values) {
  return std::ranges::adjacent_find(values, std::not_equal_to()) != values.end();
}

/// One segment, shared by `tensor` devices: near enough to order the candidates; compiling has the
/// last word on bytes. A tensor group adds up x twice in F and twice in I.
plan::SegmentWork work_of(const SegmentSpec& segment, const plan::StageCosts& time, DType dtype,
                          std::int64_t tensor) {
  const std::int64_t parameters = parameter_count(segment) / tensor;
  const std::int64_t per_parameter = 16 + (dtype == DType::BF16 ? 2 : 0);
  const double share = static_cast<double>(tensor);
  const double x = static_cast<double>(segment.layers.back().x.bytes());
  const double sums = tensor == 1 ? 0 : 4 * (kLink.latency + kLink.per_byte * x);
  const plan::StageLayout layout =
      plan::layout_stage(std::span(&segment, 1), plan::Position::Middle);
  return {.time = {.forward = time.forward / share + sums,
                   .input = time.input / share + sums,
                   .weight = time.weight / share},
          .state = per_parameter * parameters,
          .kept = (layout.bytes_of(plan::Region::KeptForInput) +
                   layout.bytes_of(plan::Region::KeptForWeight)) /
                      tensor +
                  layout.bytes_of(plan::Region::Input)};
}

class Planner {
 public:
  explicit Planner(comm::Communicator* world) : world_(world) {}

  /// With its partition, where that is left to us and a cut that should fit was found. `reserve`:
  /// bytes on each device that are not for the segments.
  PlannedRun estimate(Config config, std::int64_t reserve = 0) {
    const SegmentProfile& profile = profile_of(config);
    plan::PartitionProblem problem = problem_of(config, profile);
    for (plan::PipelineDevice& device : problem.devices) device.memory -= reserve;
    PlannedRun run{.config = std::move(config)};
    std::optional<plan::PartitionChoice> cut;
    if (!run.config.parallel.partition) cut = plan::choose_partition(problem);
    const std::vector<std::int64_t> sizes = cut ? cut->sizes : even_cut(run.config, problem);
    run.estimate = cut ? cut->seconds : plan::partition_seconds(problem, sizes);
    run.excess = plan::partition_excess(problem, sizes);
    run.bytes = plan::partition_bytes(problem, sizes);
    run.cut = cut.has_value();
    if (cut) {
      run.config.parallel.partition = sizes;
      --run.config.parallel.partition->front();
      --run.config.parallel.partition->back();
    }
    run.estimate += after_pipeline(run.config, profile);
    return run;
  }

 private:
  const SegmentProfile& profile_of(const Config& config) {
    // Emulated devices take the same time whatever the microbatch, but not whatever the pipeline.
    const std::int64_t key =
        config.devices.emulate ? *config.parallel.pipeline : *config.train.microbatch;
    const auto found = profiles_.find(key);
    if (found != profiles_.end()) return found->second;
    return profiles_.emplace(key, profile_segments(config, world_)).first->second;
  }

  double at_once(const Config& config) const {
    if (config.devices.emulate) return 0;
    return runtime::devices_at_once(static_cast<int>(config.devices.count),
                                    static_cast<int>(config.devices.threads));
  }

  plan::PartitionProblem problem_of(const Config& config, const SegmentProfile& profile) const {
    const ModelSpec model = model_of(config);
    plan::PartitionProblem problem;
    for (std::size_t i = 0; i < model.segments.size(); ++i) {
      const plan::StageCosts& time = i == 0                           ? profile.embedding
                                     : i + 1 == model.segments.size() ? profile.head
                                                                      : profile.block;
      problem.segments.push_back(
          work_of(model.segments[i], time, config.train.dtype, *config.parallel.tensor));
    }
    const auto at = [](const auto& values, std::int64_t d, auto otherwise) {
      return values.empty() ? otherwise : values[values.size() > 1 ? d : 0];
    };
    const Mesh mesh = compile_options(config).layout.mesh();
    for (int place = 0; place < mesh.pipeline; ++place) {
      const std::int64_t d = mesh.device_at(place, 0);
      problem.devices.push_back(
          {.speed = at(config.devices.speed, d, 1.0),
           .memory = at(config.devices.memory, d, std::numeric_limits<std::int64_t>::max())});
    }
    problem.schedule = config.parallel.schedule == "auto" ? "1f1b" : config.parallel.schedule;
    problem.chunks = static_cast<int>(config.parallel.chunks.value_or(0));
    problem.microbatches = compile_options(config).microbatches;
    problem.message_bytes = model.segments[1].layers.front().x.bytes();
    const std::int64_t stages = *config.parallel.pipeline * config.parallel.chunks.value_or(1);
    problem.links.assign(static_cast<std::size_t>(std::max<std::int64_t>(0, stages - 1)), kLink);
    if (config.devices.emulate) problem.links.clear();
    problem.at_once =
        at_once(config) / static_cast<double>(*config.parallel.data * *config.parallel.tensor);
    return problem;
  }

  std::vector<std::int64_t> even_cut(const Config& config,
                                     const plan::PartitionProblem& problem) const {
    if (config.parallel.partition) {
      std::vector<std::int64_t> sizes = *config.parallel.partition;
      ++sizes.front();
      ++sizes.back();
      return sizes;
    }
    plan::PartitionProblem roomy = problem;
    for (plan::PipelineDevice& device : roomy.devices) device.memory = 1ll << 60;
    return plan::choose_partition(roomy)->sizes;
  }

  /// STEP and NORM of the device that has most, and the sum over replicas.
  double after_pipeline(const Config& config, const SegmentProfile& profile) const {
    const double parameters =
        static_cast<double>(parameter_count(model_of(config))) /
        static_cast<double>(*config.parallel.pipeline * *config.parallel.tensor);
    const double busy = at_once(config);
    const double crowd =
        busy > 0 ? std::max(1.0, static_cast<double>(config.devices.count) / busy) : 1;
    double seconds = crowd * parameters * (profile.step + profile.norm);
    const double data = static_cast<double>(*config.parallel.data);
    if (data > 1 && !config.devices.emulate)
      seconds += crowd * 2 * kLink.per_byte * 4 * parameters * (data - 1) / data;
    return seconds;
  }

  comm::Communicator* world_;
  std::map<std::int64_t, SegmentProfile> profiles_;
};

/// Compiles, and compares with the budgets.
std::vector<std::int64_t> weigh(PlannedRun& run) {
  runtime::CompileOptions options = compile_options(run.config);
  const std::vector<std::int64_t> budgets = std::exchange(options.budgets, {});
  if (budgets.empty()) {
    run.excess = 0;
    return {};
  }
  const runtime::CompiledStep step = runtime::compile(model_of(run.config), options);
  run.excess = std::numeric_limits<std::int64_t>::min();
  for (int d = 0; d < std::ssize(budgets); ++d) {
    if (step.planned_on(d) - budgets[d] <= run.excess) continue;
    run.excess = step.planned_on(d) - budgets[d];
    run.needed = step.planned_on(d);
  }
  run.excess = std::max<std::int64_t>(0, run.excess);
  return step.planned_bytes;
}

/// Compiles, and cuts once more if scratch and messages, which the estimate leaves out, were what
/// did not fit. Emulated devices hold no model: for them the estimate has to do.
void compile_to_fit(Planner& planner, PlannedRun& run) {
  if (run.config.devices.emulate) return;
  const std::vector<std::int64_t> planned = weigh(run);
  if (run.excess == 0 || !run.cut) return;
  std::int64_t reserve = 0;
  for (std::size_t d = 0; d < run.bytes.size(); ++d)
    reserve = std::max(reserve, planned[d] - run.bytes[d]);
  Config open = run.config;
  open.parallel.partition.reset();
  PlannedRun again = planner.estimate(std::move(open), reserve);
  if (!again.cut) return;
  weigh(again);
  if (again.excess < run.excess) run = std::move(again);
}

}  // namespace

bool needs_plan(const Config& config) {
  const ParallelConfig& p = config.parallel;
  const bool open =
      !p.pipeline || !p.tensor || !p.data || !p.zero || !p.recompute || !config.train.microbatch;
  const bool differ = uneven(config.devices.memory) || uneven(config.devices.speed);
  return open || (differ && !p.partition && p.pipeline.value_or(1) > 1);
}

std::string describe(const Config& config) {
  const ParallelConfig& p = config.parallel;
  std::string text =
      fmt::format("pipeline {} x tensor {} x data {}, microbatch {}, schedule {}", *p.pipeline,
                  *p.tensor, *p.data, *config.train.microbatch, p.schedule);
  if (p.chunks.value_or(1) > 1) text += fmt::format(" with {} chunks", *p.chunks);
  if (p.partition && *p.pipeline * p.chunks.value_or(1) > 1)
    text += fmt::format(", layers {}", fmt::join(*p.partition, "+"));
  return text;
}

AutoPlan plan_run(const Config& config, comm::Communicator* world) {
  Planner planner(world);
  AutoPlan plan;
  std::vector<PlannedRun> runs;
  for (const Config& one : alternatives(config)) runs.push_back(planner.estimate(one));
  require(!runs.empty(), "no layout of ", config.devices.count, " devices suits train.batch ",
          config.train.batch, " and ", config.model.layers,
          " layers; change the batch, or fix fewer of the axes");
  plan.considered = std::ssize(runs);
  std::ranges::stable_sort(runs, {}, &PlannedRun::estimate);
  for (PlannedRun& run : runs) {
    check(run.config, std::nullopt);
    compile_to_fit(planner, run);
    (run.excess == 0 ? plan.fitting : plan.unfit).push_back(std::move(run));
    if (plan.fitting.size() == kFitting) break;
  }
  return plan;
}

const PlannedRun& AutoPlan::choice() const {
  if (!fitting.empty()) return fitting.front();
  return *std::ranges::min_element(unfit, {}, &PlannedRun::excess);
}

void require_fit(const AutoPlan& plan) {
  if (!plan.fitting.empty()) return;
  const PlannedRun& nearest = plan.choice();
  throw DoesNotFit(fmt::format(
      "none of {} layouts fits; the nearest ({}) needs {} on a device that has {}: raise "
      "devices.memory, use more devices, or make the model smaller",
      plan.considered, describe(nearest.config), format_bytes(nearest.needed),
      format_bytes(nearest.needed - nearest.excess)));
}

}  // namespace cleave::train
