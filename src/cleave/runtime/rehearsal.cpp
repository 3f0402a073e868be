#include "cleave/runtime/rehearsal.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>

#include "cleave/runtime/executor.h"

namespace cleave::runtime {

using schedule::Instruction;
using schedule::Op;

namespace {

/// Received bytes are made up of this one: 0.0115 in f32 and in bf16, so that no kernel stumbles
/// over numbers that training does not have.
constexpr int kReceived = 0x3c;

}  // namespace

double Samples::typical() const {
  if (values_.empty()) return 0;
  std::vector<double> sorted = values_;
  std::ranges::sort(sorted);
  const std::size_t cut = sorted.size() / 4;
  double sum = 0;
  for (std::size_t i = cut; i < sorted.size() - cut; ++i) sum += sorted[i];
  return sum / static_cast<double>(sorted.size() - 2 * cut);
}

Samples& Rehearsal::of(Op op, int index) {
  Stage& stage = stages.at(index);
  switch (op) {
    case Op::Forward:
      return stage.forward;
    case Op::BackwardInput:
      return stage.input;
    case Op::BackwardWeight:
      return stage.weight;
    case Op::Recompute:
      return stage.recompute;
    default:
      return stage.backward;
  }
}

plan::StageCosts Rehearsal::costs(int stage) const {
  const Stage& measured = stages.at(stage);
  // A list has a stage's backward in two parts, or in one, or both: the parts tell more.
  const bool split = !measured.input.empty();
  return {.forward = measured.forward.typical(),
          .input = split ? measured.input.typical() : measured.backward.typical(),
          .weight = measured.weight.typical(),
          .recompute = measured.recompute.typical()};
}

// What follows belongs to Executor: it runs the device's own instructions, without the others.

double Executor::time_of(const LinkedInstruction& entry, const StepInput& input) {
  const Clock::time_point start = Clock::now();
  execute(entry, input);
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

double Executor::rehearse_passes(const StepInput& input, int microbatches, Rehearsal& into) {
  const Clock::time_point start = Clock::now();
  place_ungathered_values();
  std::map<std::tuple<Op, int, int>, double> passes;  // of (stage, microbatch), segments added up
  for (const LinkedInstruction& entry : parts_.linked.instructions) {
    const Instruction& instruction = entry.instruction;
    if (instruction.microbatch >= microbatches) continue;
    if (instruction.op == Op::Receive)
      std::memset(entry.message.data(), kReceived, entry.message.size());
    if (!schedule::is_compute(instruction.op)) continue;
    passes[{instruction.op, instruction.stage, instruction.microbatch}] += time_of(entry, input);
  }
  for (const auto& [pass, seconds] : passes)
    into.of(std::get<0>(pass), std::get<1>(pass)).add(seconds);
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void Executor::rehearse_update(const StepInput& input, Rehearsal& into) {
  const Clock::time_point start = Clock::now();
  own_norm();
  const Clock::time_point middle = Clock::now();
  step(input);
  into.norm.add(std::chrono::duration<double>(middle - start).count());
  into.step.add(std::chrono::duration<double>(Clock::now() - middle).count());
}

}  // namespace cleave::runtime
