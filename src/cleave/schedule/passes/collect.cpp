#include <algorithm>

#include "cleave/base/check.h"
#include "cleave/schedule/effects.h"
#include "cleave/schedule/passes/pass.h"

// The last segment of a stage that collects runs once per step: what it reads of all microbatches
// and replicas must be there before its first F.
//
//   before  | 1.0F0 1.1F0 1.0F1 1.1F1                              1.1B0 1.0B0 ...
//   after   | 1.0F0       1.0F1 COLLECT:1.1 WAIT:COLLECT:1.1 1.1F0 1.1F1 1.1B0 1.0B0 ...
//
// Messages stay where they are: what arrives for such an F is read later than the communication
// pass has planned, but still before any gradient of the stage leaves, which is all that it relies
// on.

namespace cleave::schedule {
namespace {

/// F of the segment that runs once per step.
bool is_of_step(const Program& program, const Instruction& i) {
  return i.op == Op::Forward && collects(program, i.stage) &&
         i.segment == collecting_segment(program, i.stage);
}

void check_turn(const Program& program, const std::vector<Instruction>& list, int stage) {
  const Instruction* backward = nullptr;
  for (const Instruction& i : list) {
    if (i.stage != stage || !is_compute(i.op)) continue;
    if (i.op == Op::Forward && backward != nullptr)
      throw UserError(cleave::detail::concat(
          "schedule ", program.schedule, " runs ", to_string(*backward), " before ", to_string(i),
          ", but the loss is over all samples of a step; take schedule gpipe or auto"));
    if (i.op != Op::Forward && i.op != Op::Recompute && backward == nullptr) backward = &i;
  }
}

std::vector<Instruction> with_collections(const Program& program,
                                          const std::vector<Instruction>& list, int microbatches) {
  std::vector<Instruction> out;
  out.reserve(list.size() + 2);
  std::vector<std::vector<Instruction>> held(program.stages);
  for (const Instruction& i : list) {
    if (!is_of_step(program, i)) {
      out.push_back(i);
      continue;
    }
    held[i.stage].push_back(i);
    if (std::ssize(held[i.stage]) < microbatches) continue;
    check_turn(program, list, i.stage);
    Instruction collect{.op = Op::Collect, .stage = i.stage, .segment = i.segment};
    out.push_back(collect);
    collect.completes = Op::Collect;
    collect.op = Op::Wait;
    out.push_back(collect);
    std::ranges::sort(held[i.stage], {}, &Instruction::microbatch);
    out.insert(out.end(), held[i.stage].begin(), held[i.stage].end());
  }
  return out;
}

}  // namespace

Program collect_steps(Program program, const LowerOptions&) {
  if (program.collecting.empty()) return program;
  const Topology topology(program);
  for (int device = 0; device < program.devices; ++device)
    program.lists[device] =
        with_collections(program, program.lists[device], topology.microbatches(device));
  return program;
}

}  // namespace cleave::schedule
