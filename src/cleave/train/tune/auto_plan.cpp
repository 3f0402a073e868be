#include "cleave/train/tune/auto_plan.h"

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include <fmt/format.h>

#include "cleave/base/check.h"
#include "cleave/base/hash.h"
#include "cleave/base/units.h"
#include "cleave/train/step/trainer.h"
#include "cleave/train/tune/auto_grid.h"
#include "cleave/train/tune/auto_space.h"
#include "cleave/train/tune/look_ahead.h"
#include "cleave/train/tune/part_memory.h"
#include "cleave/train/tune/run_oracle.h"

namespace cleave::train {
namespace {

constexpr std::size_t kNearest = 3;  ///< how many are named if none fits
constexpr double kAlike = 1.01;      ///< of two runs this near the plainer one is chosen
constexpr int kMostOrdered = 1024;   ///< stages times microbatches, to search an order for

bool uneven(const auto& values) {
  return std::ranges::adjacent_find(values, std::not_equal_to()) != values.end();
}

/// Leaves out microbatches that are beyond any device: measuring what a block takes for them might
/// not fit either.
void drop_oversized(std::vector<plan::Layout>& layouts, const Config& grid) {
  if (layouts.empty()) return;
  const int least = std::ranges::min(layouts, {}, &plan::Layout::microbatch).microbatch;
  std::erase_if(layouts, [&](const plan::Layout& layout) {
    return layout.microbatch > least && !holds_a_block(with_layout(grid, layout));
  });
}

/// The best layout once more, in an order made for it.
void search_order(plan::SearchResult& found, const Config& grid, RunOracle& oracle) {
  if (found.fitting.empty()) return;
  Config best = with_layout(grid, found.fitting.front().layout);
  const std::int64_t stages = found.fitting.front().layout.stages();
  if (*best.parallel.pipeline == 1 || stages * compile_options(best).microbatches > kMostOrdered)
    return;
  best.parallel.schedule = "auto";
  try {
    plan::Prediction run = oracle.weighed(best);
    run.order = static_cast<std::size_t>(found.layouts);
    if (run.fits()) plan::insert_by_time(found.fitting, std::move(run));
  } catch (const DoesNotFit&) {
    return;  // a named schedule does
  }
}

/// Among runs that are alike, the plainest goes first.
void put_plainest_first(std::vector<plan::Prediction>& runs) {
  if (runs.empty()) return;
  const auto other = std::ranges::find_if(runs, [&](const plan::Prediction& run) {
    return run.step_seconds > kAlike * runs.front().step_seconds;
  });
  const auto plainest = std::ranges::min_element(runs.begin(), other, {}, &plan::Prediction::order);
  std::rotate(runs.begin(), plainest, plainest + 1);
}

void append(std::vector<PlannedRun>& runs, const Config& grid,
            const std::vector<plan::Prediction>& found) {
  for (const plan::Prediction& run : found)
    runs.push_back({with_look_ahead(with_layout(grid, run.layout), run.layout), run});
}

double seconds_of(const PlannedRun& run) {
  return run.predicted.step_seconds;
}

std::int64_t excess_of(const PlannedRun& run) {
  return run.predicted.excess();
}

/// If none fits, the nearest are compiled.
void settle_unfit(std::vector<PlannedRun>& runs, RunOracle& oracle) {
  std::ranges::stable_sort(runs, {}, excess_of);
  if (runs.size() > kNearest) runs.resize(kNearest);
  for (PlannedRun& run : runs) run.predicted = oracle.weighed(run.config);
  std::ranges::stable_sort(runs, {}, excess_of);
}

/// Returns why the last layout that no run can have is none; empty if all make sense.
std::string search_grids(AutoPlan& plan, comm::Launcher& launcher, const DeviceFacts& facts) {
  std::string reason;
  RunOracle oracle(launcher, facts);
  for (const Config& grid : grids(plan.asked)) {
    const plan::LayoutSpace space = space_of(grid);
    std::vector<plan::Layout> layouts = plan::layouts(space);
    plan.considered += std::ssize(layouts);
    drop_oversized(layouts, grid);
    oracle.ask_about(grid);
    plan::SearchResult found = plan::search(space, layouts, oracle);
    if (!space.schedule) search_order(found, grid, oracle);
    put_plainest_first(found.fitting);
    append(plan.fitting, grid, found.fitting);
    append(plan.unfit, grid, found.unfit);
    std::ranges::stable_sort(plan.unfit, {}, seconds_of);
    plan.slower += found.slower;
    reason = found.reason.empty() ? reason : found.reason;
    if (!plan.fitting.empty()) return reason;
  }
  settle_unfit(plan.unfit, oracle);
  return reason;
}

/// Why there is nothing to choose from.
std::string nothing_suits(const Config& config) {
  const ParallelConfig& p = config.parallel;
  std::string stages =
      fmt::format("at most {} stages, a layer each and two more", config.model.blocks() + 2);
  if (p.partition) stages = fmt::format("the {} stages of parallel.partition", p.partition->size());
  const std::string chunks = p.chunks ? fmt::format(" x chunks {}", *p.chunks) : "";
  return fmt::format(
      "no layout of {} devices suits: replicas x microbatch must divide train.batch {}, tensor "
      "groups the {} heads and ffn {}, and pipeline{} has {}; change devices.count, or one of "
      "these",
      config.devices.count, config.train.batch, config.model.kv_heads, config.model.ffn, chunks,
      stages);
}

/// Machines that are not alike might come to different plans.
void agree(const AutoPlan& plan, comm::Communicator& processes) {
  Hasher hasher;
  hasher.add(to_toml(plan.choice().config));
  const double mine = static_cast<double>(hasher.digest() >> 12);
  std::array<double, 2> ends = {mine, -mine};
  processes.combine(ends, comm::Combine::Max);
  require(ends[0] == -ends[1],
          "the machines of this run are so unlike that each comes to a plan of its own; run cleave "
          "plan on one of them and give the layout that it names");
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
  if (p.vision_data && p.vision_data != p.data)
    text += fmt::format(", encoder pipeline {} x data {}", *p.vision_pipeline, *p.vision_data);
  if (p.chunks.value_or(1) > 1) text += fmt::format(" with {} chunks", *p.chunks);
  if (p.partition && *p.pipeline * p.chunks.value_or(1) > 1)
    text += fmt::format(", layers {}", fmt::join(*p.partition, "+"));
  if (p.zero.value_or(0) > 0) text += fmt::format(", zero {}", *p.zero);
  if (p.receive_ahead.value_or(1) > 1) text += fmt::format(", receives {} ahead", *p.receive_ahead);
  if (p.early.value_or(0) > 0) text += fmt::format(", {} early", *p.early);
  const std::string_view recompute = plan::recompute_name(compile_options(config).layout);
  return recompute == "none" ? text : fmt::format("{}, recompute {}", text, recompute);
}

AutoPlan plan_run(const Config& config, comm::Launcher& launcher, const DeviceFacts& facts) {
  const Placement placement = config.parallel.placement;
  require(placement == Placement::Even || placement == Placement::Auto,
          "parallel.placement is one of the things that \"auto\" chooses; leave it out, or set "
          "parallel.pipeline, tensor, data, zero, recompute and train.microbatch");
  AutoPlan plan{.asked = config};
  plan.asked.parallel.placement = Placement::Even;  // the partition says it all
  const std::string reason = search_grids(plan, launcher, facts);
  require(!plan.fitting.empty() || !plan.unfit.empty() || reason.empty(), "no layout of ",
          config.devices.count, " devices makes sense; of the last one: ", reason);
  require(!plan.fitting.empty() || !plan.unfit.empty(), nothing_suits(config));
  agree(plan, launcher.processes());
  return plan;
}

Config with_latency_hidden(const Config& config, comm::Launcher& launcher,
                           const DeviceFacts& facts) {
  const bool knows_links = facts.knows_links() || config.devices.emulate;
  const bool in_a_row = !is_graph(config) && config.parallel.placement == Placement::Even;
  if (!knows_links || !in_a_row || !leaves_look_ahead_open(config)) return config;
  Config cut = config;  // costs are told by the layers of each stage
  if (!cut.parallel.partition && !config.devices.emulate) {
    engine::CompileOptions options = compile_options(config);
    options.budgets.clear();  // whether it fits is looked at later
    cut.parallel.partition.emplace();
    for (const auto& stage : engine::compile(model_of(config), options).stages)
      cut.parallel.partition->push_back(std::ranges::count(stage, true, &SegmentSpec::block));
  }
  RunOracle oracle(launcher, facts);
  if (!oracle.has_latency_to_hide(cut)) return config;
  return with_look_ahead(config, oracle.weighed(cut).layout);
}

const PlannedRun& AutoPlan::choice() const {
  if (!fitting.empty()) return fitting.front();
  return *std::ranges::min_element(unfit, {}, excess_of);
}

void require_fit(const AutoPlan& plan) {
  if (plan.fitting.empty()) throw DoesNotFit(describe_excess(plan));
}

std::string describe_excess(const AutoPlan& plan) {
  const plan::Prediction& nearest = plan.choice().predicted;
  const ParallelConfig& p = plan.asked.parallel;
  std::string closed;
  for (const auto& [key, given] :
       {std::pair("parallel.pipeline", p.pipeline.has_value()),
        std::pair("parallel.data", p.data.has_value()),
        std::pair("parallel.tensor", p.tensor.has_value()),
        std::pair("parallel.zero", p.zero.has_value()),
        std::pair("parallel.recompute", p.recompute.has_value()),
        std::pair("train.microbatch", plan.asked.train.microbatch.value_or(1) > 1)}) {
    if (given) closed += fmt::format("{}{}", closed.empty() ? "" : ", ", key);
  }
  const std::string which =
      plan.considered == 1 ? "the only layout"
                           : fmt::format("none of {} layouts fits; the nearest", plan.considered);
  return fmt::format(
      "{} ({}) needs {} on device {}, which has {}: raise devices.memory to {} bytes, use more "
      "devices, {}or make the model smaller",
      which, describe(plan.choice().config), format_bytes(nearest.memory_bytes), nearest.device,
      format_bytes(nearest.budget_bytes), nearest.memory_bytes,
      closed.empty() ? "" : fmt::format("set {} to \"auto\", ", closed));
}

}  // namespace cleave::train
