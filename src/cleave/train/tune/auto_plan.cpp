#include "cleave/train/tune/auto_plan.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "cleave/base/check.h"
#include "cleave/base/hash.h"
#include "cleave/base/units.h"
#include "cleave/train/config/config_checks.h"
#include "cleave/train/step/trainer.h"
#include "cleave/train/tune/auto_choices.h"
#include "cleave/train/tune/auto_fit.h"
#include "cleave/train/tune/auto_grid.h"

namespace cleave::train {
namespace {

constexpr std::size_t kFitting = 5;   ///< how many that fit are looked for
constexpr std::size_t kNearest = 3;   ///< how many are named if none fits
constexpr double kWorthwhile = 1.01;  ///< what each degree of ZeRO and recompute must gain
constexpr double kAlike = 1.01;       ///< of two runs this near the plainer one is chosen
constexpr double kCut = 1.02;         ///< the time of a good cut may be this much too long
constexpr double kRoughCut = 1.15;    ///< and that of a rough one this much
constexpr int kMostOrdered = 1024;    ///< stages times microbatches, to search an order for

bool uneven(const auto& values) {
  return std::ranges::adjacent_find(values, std::not_equal_to()) != values.end();
}

class Planner {
 public:
  Planner(comm::Launcher& launcher, AutoPlan& plan) : fitter_(launcher), plan_(&plan) {}

  /// Within the first grid in which something fits.
  void run(const Config& config) {
    for (const Config& grid : grids(config)) {
      search(grid);
      if (!plan_->fitting.empty()) break;
    }
    if (config.parallel.schedule == "auto") search_order();
    settle();
  }

  /// Why the last layout that makes no sense makes none; empty if all make sense.
  const std::string& reason() const { return reason_; }

 private:
  void search(const Config& config) {
    struct Layout {
      Config config;
      double bound = 0;
      std::size_t order = 0;
    };
    std::vector<Layout> layouts;
    std::vector<Config> all = alternatives(config);
    plan_->considered += std::ssize(all);
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (const Config& one : all) least = std::min(least, *one.train.microbatch);
    for (Config& one : all) {
      const bool keep = *one.train.microbatch == least || AutoCosts::holds_a_block(one);
      if (keep) layouts.push_back({std::move(one)});
    }
    for (Layout& layout : layouts) {
      layout.order = static_cast<std::size_t>(&layout - layouts.data());
      layout.bound = fitter_.costs().bound(savings(layout.config).front());
    }
    std::ranges::stable_sort(layouts, {}, &Layout::bound);
    for (const Layout& layout : layouts) {
      order_ = layout.order;
      try {
        consider(layout.config, layout.bound);
      } catch (const UserError& error) {
        reason_ = error.what();
      }
    }
    order_ = layouts.size();
  }

  /// What a run that is still worth looking at stays below.
  double limit() const {
    if (plan_->fitting.size() < kFitting) return std::numeric_limits<double>::infinity();
    return plan_->fitting[kFitting - 1].seconds;
  }

  /// One layout, with the fastest of what it can do about memory that makes it fit.
  void consider(const Config& layout, double bound) {
    const std::vector<Config> all = savings(layout);
    check(all.front(), std::nullopt);
    if (bound > limit() || fitter_.roomy_seconds(all.front()) > kRoughCut * limit()) {
      ++plan_->slower;
      return;
    }
    std::optional<PlannedRun> nearest;
    for (const Config* one : by_time(all)) {
      std::optional<PlannedRun> run = fitter_.fitted(*one, kCut * limit());
      if (!run) continue;
      if (run->excess == 0) return add(plan_->fitting, std::move(*run));
      if (!nearest || run->excess < nearest->excess) nearest = std::move(run);
    }
    if (nearest) return add(plan_->unfit, std::move(*nearest));
    ++plan_->slower;
  }

  std::vector<const Config*> by_time(const std::vector<Config>& all) {
    std::vector<std::pair<double, const Config*>> timed;
    for (const Config& one : all) {
      const double seconds = all.size() == 1 ? 0 : fitter_.roomy_seconds(one);
      timed.emplace_back(seconds * std::pow(kWorthwhile, degree_of_saving(one)), &one);
    }
    std::ranges::stable_sort(timed, {}, [](const auto& pair) { return pair.first; });
    std::vector<const Config*> result;
    for (const auto& [seconds, one] : timed) result.push_back(one);
    return result;
  }

  void add(std::vector<PlannedRun>& list, PlannedRun run) {
    run.order = order_;
    const auto behind = std::ranges::upper_bound(list, run.seconds, {}, &PlannedRun::seconds);
    list.insert(behind, std::move(run));
  }

  /// The best layout once more, in an order made for it.
  void search_order() {
    if (plan_->fitting.empty()) return;
    Config best = plan_->fitting.front().config;
    const std::int64_t stages = std::ssize(*best.parallel.partition);
    if (*best.parallel.pipeline == 1 || stages * compile_options(best).microbatches > kMostOrdered)
      return;
    best.parallel.schedule = "auto";
    try {
      PlannedRun run = fitter_.weighed({.config = std::move(best)});
      if (run.excess == 0) add(plan_->fitting, std::move(run));
    } catch (const DoesNotFit&) {
      return;  // a named schedule does
    }
  }

  /// Of runs that are alike, the plainest goes first; if none fits, the nearest are compiled.
  void settle() {
    std::vector<PlannedRun>& runs = plan_->fitting;
    if (runs.empty()) return settle_unfit();
    const auto other = std::ranges::find_if(
        runs, [&](const PlannedRun& run) { return run.seconds > kAlike * runs.front().seconds; });
    const auto plainest = std::ranges::min_element(runs.begin(), other, {}, &PlannedRun::order);
    std::rotate(runs.begin(), plainest, plainest + 1);
  }

  void settle_unfit() {
    std::vector<PlannedRun>& runs = plan_->unfit;
    std::ranges::stable_sort(runs, {}, &PlannedRun::excess);
    if (runs.size() > kNearest) runs.resize(kNearest);
    for (PlannedRun& run : runs) run = fitter_.weighed(std::move(run));
    std::ranges::stable_sort(runs, {}, &PlannedRun::excess);
  }

  RunFitter fitter_;
  AutoPlan* plan_;
  std::string reason_;
  std::size_t order_ = 0;  // of the layout that is being considered
};

/// Why there is nothing to choose from.
std::string nothing_suits(const Config& config) {
  const ParallelConfig& p = config.parallel;
  std::string stages =
      fmt::format("at most {} stages, a layer each and two more", config.model.layers + 2);
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

std::string recompute_name(const Config& config) {
  constexpr std::array<const char*, 3> kNames = {"none", "selective", "full"};
  const auto& kinds = *config.parallel.recompute;
  return uneven(kinds) ? "by layer" : kNames[static_cast<std::size_t>(kinds.front())];
}

std::string describe(const Config& config) {
  const ParallelConfig& p = config.parallel;
  std::string text =
      fmt::format("pipeline {} x tensor {} x data {}, microbatch {}, schedule {}", *p.pipeline,
                  *p.tensor, *p.data, *config.train.microbatch, p.schedule);
  if (p.chunks.value_or(1) > 1) text += fmt::format(" with {} chunks", *p.chunks);
  if (p.partition && *p.pipeline * p.chunks.value_or(1) > 1)
    text += fmt::format(", layers {}", fmt::join(*p.partition, "+"));
  if (p.zero.value_or(0) > 0) text += fmt::format(", zero {}", *p.zero);
  if (const std::string recompute = recompute_name(config); recompute != "none")
    text += ", recompute " + recompute;
  return text;
}

AutoPlan plan_run(const Config& config, comm::Launcher& launcher) {
  require(config.model.vision.layers == 0,
          "\"auto\" plans for models whose layers are all alike, and a ", config.model.kind->name,
          " has two kinds; set parallel.pipeline, tensor, data, zero, recompute and "
          "train.microbatch");
  AutoPlan plan{.asked = config};
  Planner planner(launcher, plan);
  planner.run(config);
  require(!plan.fitting.empty() || !plan.unfit.empty() || planner.reason().empty(), "no layout of ",
          config.devices.count, " devices makes sense; of the last one: ", planner.reason());
  require(!plan.fitting.empty() || !plan.unfit.empty(), nothing_suits(config));
  agree(plan, launcher.processes());
  return plan;
}

const PlannedRun& AutoPlan::choice() const {
  if (!fitting.empty()) return fitting.front();
  return *std::ranges::min_element(unfit, {}, &PlannedRun::excess);
}

void require_fit(const AutoPlan& plan) {
  if (plan.fitting.empty()) throw DoesNotFit(describe_excess(plan));
}

std::string describe_excess(const AutoPlan& plan) {
  const PlannedRun& nearest = plan.choice();
  const ParallelConfig& p = plan.asked.parallel;
  std::string closed;
  for (const auto& [open, key] : {std::pair(!p.pipeline, "pipeline"), std::pair(!p.data, "data"),
                                  std::pair(!p.tensor, "tensor"), std::pair(!p.zero, "zero"),
                                  std::pair(!p.recompute, "recompute")}) {
    if (!open) closed += fmt::format("{}parallel.{}", closed.empty() ? "" : ", ", key);
  }
  if (plan.asked.train.microbatch.value_or(1) > 1) closed += ", train.microbatch";
  return fmt::format(
      "none of {} layouts fits; the nearest ({}) needs {} on device {}, which has {}: raise "
      "devices.memory to {} bytes, use more devices, {}or make the model smaller",
      plan.considered, describe(nearest.config), format_bytes(nearest.needed), nearest.device,
      format_bytes(nearest.needed - nearest.excess), nearest.needed,
      closed.empty() ? "" : fmt::format("set {} to \"auto\", ", closed));
}

}  // namespace cleave::train
