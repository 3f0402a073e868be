#include "cleave/engine/run/linked_sums.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "cleave/schedule/effects.h"

namespace cleave::engine {
namespace {

using schedule::Instruction;
using schedule::Op;

bool adds_gradients(Op op) {
  return schedule::is_compute(op) && schedule::writes(op, schedule::Thing::Gradients);
}

void set_sums(const DeviceSums& sums, LinkedInstruction& entry) {
  const int microbatch = entry.instruction.microbatch;
  entry.pass.sum = sums.sum_of(microbatch);
  entry.pass.replica = sums.replica_of(microbatch);
  if (sums.begins(microbatch)) entry.pass.gradient = Write::Overwrite;
  entry.pass.ends_sum = sums.ends(microbatch);
}

/// The instruction that reads a segment's sum first, after its last W.
LinkedInstruction* first_reader(StageId stage, SegmentId segment, LinkedProgram& linked) {
  const auto found = std::ranges::find_if(linked.instructions, [&](const LinkedInstruction& entry) {
    const Instruction& i = entry.instruction;
    const bool reduces =
        i.op == Op::Reduce && i.stage == stage && (i.segment < 0 || i.segment == segment);
    return reduces || i.op == Op::Tie || i.op == Op::Norm;
  });
  return found == linked.instructions.end() ? nullptr : &*found;
}

void clear_unwritten(std::span<Stage* const> stages, LinkedProgram& linked) {
  std::set<std::pair<int, int>> written;
  for (const LinkedInstruction& entry : linked.instructions)
    if (adds_gradients(entry.instruction.op))
      written.insert({entry.instruction.stage, entry.pass.segment});
  for (StageId s{0}; s < std::ssize(stages); ++s) {
    if (stages[s] == nullptr) continue;
    const auto& segments = stages[s]->parameters().layout().segments;
    for (SegmentId k{0}; k < std::ssize(segments); ++k) {
      if (segments[k].elements == 0 || written.contains({s, k})) continue;
      if (LinkedInstruction* reader = first_reader(s, k, linked)) reader->cleared.push_back({s, k});
    }
  }
}

}  // namespace

void link_sums(const schedule::Program& program, int device, std::span<Stage* const> stages,
               const ShardFold& fold, LinkedProgram& linked) {
  const schedule::Topology topology(program);
  for (const int stage : topology.stages[device]) {
    const DeviceSums sums(fold, topology, StageId{stage}, DeviceId{device});
    std::map<int, std::vector<char>> complete;  // [segment] of which replicas
    for (LinkedInstruction& entry : linked.instructions) {
      const Instruction& i = entry.instruction;
      if (i.stage != stage || !schedule::is_compute(i.op)) continue;
      set_sums(sums, entry);
      if (!adds_gradients(i.op)) continue;
      std::vector<char>& of_segment = complete[entry.pass.segment];
      of_segment.resize(static_cast<std::size_t>(topology.replicas[device]));
      entry.merges = sums.merges_after(i.microbatch, of_segment);
    }
  }
  clear_unwritten(stages, linked);
}

}  // namespace cleave::engine
