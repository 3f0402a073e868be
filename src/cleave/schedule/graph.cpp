#include "cleave/schedule/graph.h"

#include <algorithm>

#include "cleave/base/check.h"

namespace cleave::schedule {
namespace {

/// Stages in an order in which every edge leads forward; fewer than all of them if there is none.
std::vector<int> sorted_stages(int stages, std::span<const Edge> edges) {
  std::vector<std::vector<int>> after(stages);
  std::vector<int> left(stages, 0);
  for (const Edge& edge : edges) {
    after[edge.from].push_back(edge.to);
    ++left[edge.to];
  }
  std::vector<int> sorted;
  for (int s = 0; s < stages; ++s)
    if (left[s] == 0) sorted.push_back(s);
  for (std::size_t k = 0; k < sorted.size(); ++k)
    for (const int to : after[sorted[k]])
      if (--left[to] == 0) sorted.push_back(to);
  return sorted;
}

GradientKind kind_of(bool learns, bool learns_before, bool has_inputs) {
  if (!learns) return learns_before ? GradientKind::InputOnly : GradientKind::None;
  return learns_before || !has_inputs ? GradientKind::Full : GradientKind::WeightOnly;
}

/// Where a device stands for several replicas, it would have what all of them send on its way at
/// once in a program without backward passes.
bool is_unheard(const Program& program, const Topology& topology, const Edge& edge) {
  return !edge.backward &&
         (gradients_of(program, edge.from) == GradientKind::None || stands_for_several(topology));
}

}  // namespace

std::optional<std::vector<int>> longest_paths(int stages, std::span<const Edge> edges,
                                              std::span<const int> lengths) {
  const std::vector<int> sorted = sorted_stages(stages, edges);
  if (std::ssize(sorted) < stages) return std::nullopt;
  std::vector<std::vector<int>> after(stages);
  for (const Edge& edge : edges) after[edge.from].push_back(edge.to);
  std::vector<int> distance(stages, 0);
  for (std::size_t k = sorted.size(); k-- > 0;)
    for (const int to : after[sorted[k]])
      distance[sorted[k]] =
          std::max(distance[sorted[k]], distance[to] + (lengths.empty() ? 1 : lengths[to]));
  return distance;
}

bool stands_for_several(const Topology& topology) {
  return std::ranges::any_of(topology.replicas, [](int count) { return count > 1; });
}

std::vector<int> unheard_windows(const Program& program, const Topology& topology) {
  std::vector<int> windows(program.edges.size(), 0);
  const auto unheard = [&](const Edge& edge) { return is_unheard(program, topology, edge); };
  if (std::ranges::none_of(program.edges, unheard)) return windows;
  const std::optional<std::vector<int>> distance = longest_paths(program.stages, program.edges);
  for (std::size_t e = 0; e < windows.size() && distance; ++e)
    if (unheard(program.edges[e])) windows[e] = (*distance)[program.edges[e].from] + 1;
  return windows;
}

void freeze(Program& program, std::span<const int> frozen) {
  std::vector<char> learns(program.stages, 1);
  for (const int stage : frozen) {
    require(stage >= 0 && stage < program.stages, "stage ", stage, " cannot be frozen; there are ",
            program.stages, " stages, from 0 on");
    learns[stage] = 0;
  }
  require(std::ranges::count(learns, 1) > 0, "every stage is frozen, and nothing is left to learn");
  std::vector<char> reaches(program.stages, 0);  // something up to and with this stage learns
  const std::vector<int> sorted = sorted_stages(program.stages, program.edges);
  CLEAVE_CHECK(std::ssize(sorted) == program.stages, "the edges form a cycle");
  program.gradients.assign(program.stages, GradientKind::Full);
  for (const int stage : sorted) {
    bool before = false;
    bool has_inputs = false;
    for (Edge& edge : program.edges) {
      if (edge.to != stage) continue;
      has_inputs = true;
      edge.backward = edge.backward && reaches[edge.from];
      before = before || edge.backward;
    }
    program.gradients[stage] = kind_of(learns[stage] != 0, before, has_inputs);
    reaches[stage] = learns[stage] || before;
  }
}

void leave_out_undemanded(Program& program) {
  const Topology topology(program);
  for (int device = 0; device < program.devices; ++device) {
    std::erase_if(program.lists[device], [&](Instruction& i) {
      if (!topology.present(i.stage, topology.of_replica(device, i))) return true;
      const GradientKind kind = gradients_of(program, i.stage);
      const bool input = makes_input_gradient(kind);
      const bool weight = makes_weight_gradient(kind);
      if (i.op == Op::Backward && input != weight)
        i.op = input ? Op::BackwardInput : Op::BackwardWeight;
      if (i.op == Op::Backward || i.op == Op::Recompute) return !input && !weight;
      return (i.op == Op::BackwardInput && !input) || (i.op == Op::BackwardWeight && !weight);
    });
  }
}

}  // namespace cleave::schedule
