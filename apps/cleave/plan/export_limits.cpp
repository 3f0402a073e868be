#include "plan/export_limits.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cleave/base/check.h"

namespace cleave::app {
namespace {

using plan::Layout;
using plan::Workload;
using schedule::Recompute;

constexpr std::string_view kUnpipelined = "1f1b";  ///< microbatches one after another

const ExportSchedule* find_schedule(const ExportLimits& system, const Layout& layout) {
  const auto at = std::ranges::find(system.schedules, layout.schedule, &ExportSchedule::ours);
  return at == system.schedules.end() ? nullptr : &*at;
}

bool divides(Rounds rounds, std::int64_t microbatches, std::int64_t devices) {
  if (rounds == Rounds::Any) return true;
  if (rounds == Rounds::Whole) return microbatches % devices == 0;
  return microbatches % std::max<std::int64_t>(1, microbatches / devices) == 0;
}

std::string lack_in_schedule(const ExportLimits& system, const Workload& work,
                             const Layout& layout) {
  const ExportSchedule* schedule = find_schedule(system, layout);
  if (schedule == nullptr) {
    std::vector<std::string_view> names;
    for (const ExportSchedule& one : system.schedules) names.push_back(one.ours);
    return fmt::format("the schedule {}; it has {}", layout.schedule, fmt::join(names, ", "));
  }
  if (layout.pipeline == 1 && (layout.schedule != kUnpipelined || layout.chunks > 1))
    return fmt::format("the schedule {} of {} chunks without a pipeline; it has {}",
                       layout.schedule, layout.chunks, kUnpipelined);
  const std::int64_t microbatches = plan::microbatches(work, layout);
  if (!divides(schedule->rounds, microbatches, layout.pipeline))
    return fmt::format(
        "the schedule {} for {} microbatches on {} devices of a pipeline; it has "
        "it for multiples of {}",
        layout.schedule, microbatches, layout.pipeline, layout.pipeline);
  const std::int64_t layers = work.model.layers;
  if (system.even_stages && !layers_of_ends(layers, layout.stages()))
    return fmt::format("stages of unequal size, and {} layers are not divided evenly by {} stages",
                       layers, layout.stages());
  return "";
}

std::string lack_over_tensor(const ExportLimits& system, const Workload& work,
                             const Layout& layout) {
  if (layout.zero > system.most_zero_with_tensor)
    return fmt::format("ZeRO {} with tensor parallelism; it has up to {}", layout.zero,
                       system.most_zero_with_tensor);
  if (work.model.kv_heads % layout.tensor != 0)
    return fmt::format("tensor parallelism of {} devices for {} key-value heads", layout.tensor,
                       work.model.kv_heads);
  if (layout.sequence_parallel && system.rows == RowsOfTensor::Whole) return "sequence_parallel";
  if (!layout.sequence_parallel && system.rows == RowsOfTensor::Divided)
    return "tensor parallelism without sequence_parallel";
  return "";
}

}  // namespace

ExportLimits megatron_limits() {
  using enum Recompute;
  return {.name = "Megatron-LM",
          .schedules = {{"1f1b", "1f1b"}, {"interleaved", "interleaved", Rounds::Whole}},
          .alone = {.zero = {0, 1, 2, 3}, .recompute = {None, Selective, Full}},
          .in_pipeline = {.zero = {0, 1}, .recompute = {None, Selective, Full}},
          .even_stages = true};
}

/// FSDP that keeps gathered weights reduces gradients after every microbatch without a pipeline,
/// which is ZeRO 2, and after the last one with a pipeline, which is ZeRO 1. Its selective mode
/// computes every second layer again, which is not ours.
ExportLimits torchtitan_limits() {
  using enum Recompute;
  return {.name = "torchtitan",
          .schedules = {{"1f1b", "1F1B"},
                        {"gpipe", "GPipe"},
                        {"interleaved", "Interleaved1F1B", Rounds::Equal},
                        {"zbv", "ZBVZeroBubble"}},
          .alone = {.zero = {0, 2, 3}, .recompute = {None, Full}},
          .in_pipeline = {.zero = {0, 1}, .recompute = {None, Full}},
          .rows = RowsOfTensor::Divided,
          .even_stages = true};
}

/// Without a pipeline its config says how to recompute, but only a model's own code says what.
ExportLimits deepspeed_limits() {
  using enum Recompute;
  return {.name = "DeepSpeed",
          .schedules = {{"1f1b", "1f1b"}},
          .alone = {.zero = {0, 1, 2, 3}, .recompute = {None}},
          .in_pipeline = {.zero = {0, 1}, .recompute = {None, Full}, .tensor = false},
          .most_zero_with_tensor = 2,
          .rows = RowsOfTensor::Whole};
}

std::string lack(const ExportLimits& system, const Workload& work, const Layout& layout) {
  const ExportReach& reach = layout.pipeline > 1 ? system.in_pipeline : system.alone;
  const std::string_view where = layout.pipeline > 1 ? "with a pipeline" : "without a pipeline";
  if (std::string schedule = lack_in_schedule(system, work, layout); !schedule.empty())
    return schedule;
  if (std::ranges::find(reach.zero, layout.zero) == reach.zero.end())
    return fmt::format("ZeRO {} {}; it has {}", layout.zero, where, fmt::join(reach.zero, ", "));
  if (std::ranges::find(reach.recompute, recompute_of(layout)) == reach.recompute.end()) {
    std::vector<std::string_view> kinds;
    for (const Recompute kind : reach.recompute) kinds.push_back(plan::to_string(kind));
    return fmt::format("recompute={} {}; it has {}", plan::to_string(recompute_of(layout)), where,
                       fmt::join(kinds, ", "));
  }
  if (layout.tensor == 1) return "";
  if (!reach.tensor) return fmt::format("tensor parallelism {}", where);
  return lack_over_tensor(system, work, layout);
}

/// We cut layers as evenly as can be, and what is left over goes to all stages but the ends before
/// these get any. So both ends have a layer less than the others exactly if they count as one each.
std::optional<int> layers_of_ends(std::int64_t layers, std::int64_t stages) {
  if (layers % stages == 0) return 0;
  if ((layers + 2) % stages == 0) return 1;
  return std::nullopt;
}

std::string_view schedule_name(const ExportLimits& system, const Layout& layout) {
  const ExportSchedule* schedule = find_schedule(system, layout);
  CLEAVE_CHECK(schedule != nullptr, layout.schedule);
  return schedule->theirs;
}

}  // namespace cleave::app
