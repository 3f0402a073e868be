#include <algorithm>
#include <array>
#include <vector>

#include "cleave/runtime/executor.h"

namespace cleave::runtime {
namespace {

using schedule::Instruction;
using schedule::Op;

constexpr int kRounds = 3;

double median(std::array<double, kRounds> values) {
  std::ranges::sort(values);
  return values[kRounds / 2];
}

/// The passes of one microbatch of a stage, segment by segment in the order in which they run.
struct Passes {
  std::vector<const LinkedInstruction*> forward;
  std::vector<const LinkedInstruction*> again;   ///< R
  std::vector<const LinkedInstruction*> input;   ///< I, or B
  std::vector<const LinkedInstruction*> weight;  ///< none after a B
};

/// Of the first microbatch whose backward is split, if there is one, else of microbatch 0.
Passes find_passes(const LinkedProgram& program, int stage) {
  int microbatch = 0;
  for (const LinkedInstruction& entry : program.instructions) {
    const Instruction& i = entry.instruction;
    if (i.op != Op::BackwardInput || i.stage != stage) continue;
    microbatch = i.microbatch;
    break;
  }
  Passes passes;
  for (const LinkedInstruction& entry : program.instructions) {
    const Instruction& i = entry.instruction;
    if (i.stage != stage || i.microbatch != microbatch) continue;
    if (i.op == Op::Forward) passes.forward.push_back(&entry);
    if (i.op == Op::Recompute) passes.again.push_back(&entry);
    if (i.op == Op::BackwardInput || i.op == Op::Backward) passes.input.push_back(&entry);
    if (i.op == Op::BackwardWeight) passes.weight.push_back(&entry);
  }
  return passes;
}

}  // namespace

double Executor::time_of(std::span<const LinkedInstruction* const> entries,
                         const StepInput& input) {
  const Clock::time_point start = Clock::now();
  for (const LinkedInstruction* entry : entries) execute(*entry, input);
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// What NORM does before the devices meet.
void Executor::own_norm() {
  tie_within_stages();
  norm_.square(*parts_.compute);
}

/// Segments whose parameters would be gathered compute with what happens to be there.
void Executor::place_ungathered_values() {
  for (const LinkedInstruction& entry : parts_.linked.instructions) {
    const Instruction& i = entry.instruction;
    if (i.op != Op::Gather) continue;
    std::ranges::fill(entry.workspace, std::byte{0});
    parts_.stages[i.stage]->place_values(std::max(i.segment, 0), entry.workspace.data());
  }
}

void Executor::compute_alone(const StepInput& input) {
  place_ungathered_values();
  for (const LinkedInstruction& entry : parts_.linked.instructions) {
    const Op op = entry.instruction.op;
    if (schedule::is_compute(op)) execute(entry, input);
    if (op == Op::Step) step(input);
    if (op == Op::Norm) own_norm();
  }
}

Rehearsal Executor::rehearse(const StepInput& input) {
  Rehearsal result;
  result.stages.resize(parts_.program->stages);
  place_ungathered_values();
  for (int s = 0; s < parts_.program->stages; ++s) {
    const Passes passes = find_passes(parts_.linked, s);
    if (passes.forward.empty()) continue;
    std::array<double, kRounds> f{}, r{}, i{}, w{};
    for (int round = -1; round < kRounds; ++round) {  // the first touches the memory
      const auto at = static_cast<std::size_t>(std::max(0, round));
      f[at] = time_of(passes.forward, input);
      r[at] = time_of(passes.again, input);
      i[at] = time_of(passes.input, input);
      w[at] = time_of(passes.weight, input);
    }
    result.stages[s] = {
        .forward = median(f), .input = median(i), .weight = median(w), .recompute = median(r)};
  }

  std::array<double, kRounds> norms{}, steps{};
  for (int round = -1; round < kRounds; ++round) {
    const auto at = static_cast<std::size_t>(std::max(0, round));
    const Clock::time_point start = Clock::now();
    own_norm();
    const Clock::time_point middle = Clock::now();
    step(input);
    norms[at] = std::chrono::duration<double>(middle - start).count();
    steps[at] = std::chrono::duration<double>(Clock::now() - middle).count();
  }
  result.norm = median(norms);
  result.step = median(steps);
  return result;
}

}  // namespace cleave::runtime
