#include "cleave/engine/run/linked_sums.h"

#include <algorithm>
#include <set>
#include <utility>

#include "cleave/schedule/effects.h"

namespace cleave::engine {
namespace {

using schedule::Instruction;
using schedule::Op;

bool adds_gradients(Op op) {
  return schedule::is_compute(op) && schedule::writes(op, schedule::Thing::Gradients);
}

void set_sums(const PresentShards& shards, const ShardFold& fold, LinkedInstruction& entry) {
  const int microbatch = entry.instruction.microbatch;
  entry.pass.sum = fold.sum_of(fold.shard_of(microbatch));
  if (shards.begins(microbatch)) entry.pass.gradient = Write::Overwrite;
  entry.completed = shards.completed_by(microbatch);
  entry.pass.ends_sum = entry.completed.count > 0;
}

/// The instruction that reads a segment's sum first, after its last W.
LinkedInstruction* first_reader(int stage, int segment, LinkedProgram& linked) {
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
  for (int s = 0; s < std::ssize(stages); ++s) {
    if (stages[s] == nullptr) continue;
    const auto& segments = stages[s]->parameters().layout().segments;
    for (int k = 0; k < std::ssize(segments); ++k) {
      if (segments[k].elements == 0 || written.contains({s, k})) continue;
      if (LinkedInstruction* reader = first_reader(s, k, linked)) reader->cleared.push_back({s, k});
    }
  }
}

}  // namespace

void link_sums(const schedule::Program& program, int device, std::span<Stage* const> stages,
               const ShardFold& fold, LinkedProgram& linked) {
  const schedule::Topology topology(program);
  const int replica = topology.replica[device];
  for (const int stage : topology.stages[device]) {
    const PresentShards shards(fold, topology, stage, replica);
    for (LinkedInstruction& entry : linked.instructions) {
      const Instruction& i = entry.instruction;
      if (i.stage == stage && schedule::is_compute(i.op)) set_sums(shards, fold, entry);
    }
  }
  clear_unwritten(stages, linked);
}

}  // namespace cleave::engine
