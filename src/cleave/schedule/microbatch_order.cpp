#include "cleave/schedule/microbatch_order.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "cleave/schedule/effects.h"
#include "cleave/schedule/verifier.h"

namespace cleave::schedule {
namespace {

/// Stages of a device whose gradients would be added up in another order than that of microbatches.
std::set<int> unsorted_stages(const std::vector<Instruction>& list) {
  std::map<int, int> last;
  std::set<int> stages;
  for (const Instruction& i : list) {
    if (!writes(i.op, Thing::Gradients)) continue;
    const auto [at, first] = last.emplace(i.stage, i.microbatch);
    if (!first && i.microbatch < at->second) stages.insert(i.stage);
    at->second = i.microbatch;
  }
  return stages;
}

void sort_stages(std::vector<Instruction>& list, const std::set<int>& stages) {
  const auto moves = [&](const Instruction& i) {
    return is_compute(i.op) && i.op != Op::Forward && stages.contains(i.stage);
  };
  std::map<std::pair<int, Op>, std::vector<int>> microbatches;
  for (const Instruction& i : list)
    if (moves(i)) microbatches[{i.stage, i.op}].push_back(i.microbatch);
  // The last one first, so that each can be taken from the end.
  for (auto& [key, numbers] : microbatches) std::ranges::sort(numbers, std::greater());
  for (Instruction& i : list) {
    if (!moves(i)) continue;
    std::vector<int>& numbers = microbatches[{i.stage, i.op}];
    i.microbatch = numbers.back();
    numbers.pop_back();
  }
}

}  // namespace

bool sort_backwards(Program& program) {
  Program sorted = program;
  bool changed = false;
  for (std::vector<Instruction>& list : sorted.lists) {
    const std::set<int> stages = unsorted_stages(list);
    if (stages.empty()) continue;
    sort_stages(list, stages);
    changed = true;
  }
  if (!changed || !verify_compute(sorted).empty()) return false;
  program = std::move(sorted);
  return true;
}

}  // namespace cleave::schedule
