#include "cleave/plan/tune/stage_gradients.h"

#include <algorithm>
#include <utility>

#include "cleave/plan/tune/partition.h"
#include "cleave/schedule/graph.h"
#include "cleave/spec/trainable.h"

namespace cleave::plan {

using schedule::GradientKind;

std::vector<GradientKind> segment_gradients(const Graph& model) {
  const std::vector<bool> wants = wants_gradients(model);
  std::vector<GradientKind> kinds;
  for (std::size_t s = 0; s < wants.size(); ++s) {
    const bool learns = wants[s] && trains(model.segments[s]);
    kinds.push_back(learns     ? GradientKind::Full
                    : wants[s] ? GradientKind::InputOnly
                               : GradientKind::None);
  }
  return kinds;
}

std::vector<GradientKind> group_gradients(std::span<const GradientKind> members,
                                          std::span<const std::int64_t> sizes) {
  std::vector<GradientKind> groups;
  for (const std::int64_t size : sizes) {
    const auto own = members.first(static_cast<std::size_t>(size));
    const auto asks = [&](GradientKind kind) { return std::ranges::find(own, kind) != own.end(); };
    groups.push_back(asks(GradientKind::Full)        ? GradientKind::Full
                     : asks(GradientKind::InputOnly) ? GradientKind::InputOnly
                                                     : GradientKind::None);
    members = members.subspan(own.size());
  }
  return groups;
}

std::vector<GradientKind> part_gradients(const Graph& model) {
  return group_gradients(segment_gradients(model), parts_of(model));
}

void set_gradients(schedule::Program& program, std::vector<GradientKind> kinds) {
  const auto learn = std::ranges::count(kinds, GradientKind::Full);
  if (learn == 0 || learn == program.stages) return;
  program.gradients = std::move(kinds);
  schedule::leave_out_undemanded(program);
}

}  // namespace cleave::plan
