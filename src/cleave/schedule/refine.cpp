#include "cleave/schedule/refine.h"

#include <algorithm>

#include "cleave/base/check.h"

namespace cleave::schedule {
namespace {

void check_parts(const Program& order, const std::vector<std::vector<int>>& parts) {
  CLEAVE_CHECK(order.replicas == 1 && is_compute_only(order), "a program of ", order.replicas,
               " replicas is not refined again");
  CLEAVE_CHECK(!parts.empty(), "there are no replicas to refine for");
  for (const std::vector<int>& of_replica : parts) {
    CLEAVE_CHECK(of_replica.size() == parts[0].size() && of_replica.front() == 0 &&
                     of_replica.back() == order.stages - 1,
                 "a replica's stages are no refinement");
    for (std::size_t s = 1; s < of_replica.size(); ++s)
      CLEAVE_CHECK(of_replica[s] - of_replica[s - 1] == 0 || of_replica[s] - of_replica[s - 1] == 1,
                   "a replica leaves a stage out");
  }
}

/// F runs the parts of a stage first to last, everything backward last to first.
std::vector<Instruction> refined(const std::vector<Instruction>& list,
                                 const std::vector<int>& part_of) {
  std::vector<Instruction> out;
  for (const Instruction& whole : list) {
    const auto [first, last] = std::ranges::equal_range(part_of, whole.stage);
    const auto count = static_cast<int>(last - first);
    for (int k = 0; k < count; ++k) {
      Instruction part = whole;
      const bool down = whole.op == Op::Forward || whole.op == Op::Recompute;
      part.stage = static_cast<int>(first - part_of.begin()) + (down ? k : count - 1 - k);
      out.push_back(part);
    }
  }
  return out;
}

}  // namespace

Program refine(const Program& order, const std::vector<std::vector<int>>& parts) {
  check_parts(order, parts);
  Program program = order;
  program.stages = static_cast<int>(parts[0].size());
  program.replicas = static_cast<int>(parts.size());
  program.devices = order.devices * program.replicas;
  program.segments.assign(program.stages, 1);
  program.placement.assign(program.stages, {});
  program.lists.clear();
  program.edges.clear();
  for (int stage = 0; stage + 1 < program.stages; ++stage)
    program.edges.push_back({.from = stage, .to = stage + 1});
  for (int replica = 0; replica < program.replicas; ++replica) {
    const std::vector<int>& part_of = parts[replica];
    for (int stage = 0; stage < program.stages; ++stage)
      program.placement[stage].push_back(replica * order.devices +
                                         order.placement[part_of[stage]][0]);
    for (const auto& list : order.lists) program.lists.push_back(refined(list, part_of));
  }
  return program;
}

}  // namespace cleave::schedule
