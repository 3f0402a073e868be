// The end of a step: the norm of all gradients, and the update of the weights.
#include <algorithm>

#include "cleave/engine/run/executor.h"
#include "cleave/ops/elementwise.h"

namespace cleave::engine {

using schedule::Instruction;
using schedule::Op;

void Executor::norm(const StepInput& input) {
  sums_.square_gradients(*parts_.compute);
  if (input.watch != nullptr) input.watch->before_norm();
  result_ = sums_.combine(input.loss_scale, input.stop);
}

void Executor::step(const Instruction& instruction, const StepInput& input) {
  if (input.optimizer == nullptr) return;
  const double clip = input.optimizer->clip();
  const double norm = result_.gradient_norm;
  // As torch.nn.utils.clip_grad_norm_ does it.
  const double scale = clip > 0 ? std::min(1.0, clip / (norm + 1e-6)) : 1.0;
  if (input.watch != nullptr) input.watch->before_update();
  const auto update = [&](std::span<const ParameterState> parameters) {
    for (const ParameterState& parameter : parameters) {
      if (parameter.spec->trainable && !parameter.borrowed && parameter.elements() > 0)
        input.optimizer->update(*parts_.compute, parameter, scale);
    }
  };
  if (instruction.segment >= 0) {
    update(parts_.stages[instruction.stage]->parameters().of_segment(instruction.segment));
  } else {
    for (int s = 0; s < std::ssize(parts_.stages); ++s) {
      const bool meant = instruction.stage < 0 || instruction.stage == s;
      if (parts_.stages[s] != nullptr && meant) update(parts_.stages[s]->parameters().all());
    }
  }
  if (input.watch != nullptr) input.watch->after_update();
}

void Executor::round_masters() {
  for (const LinkedInstruction& entry : parts_.linked.instructions) {
    const Instruction& i = entry.instruction;
    if (i.op != Op::In || !schedule::is_state_move(i)) continue;
    moves_.carry_out(entry);
    const StageParameters& parameters = parts_.stages[i.stage]->parameters();
    for (const ParameterState& p : parameters.of_segment(std::max(i.segment, 0)))
      if (!p.borrowed && p.master && p.master.bytes() != p.value.bytes() && p.elements() > 0)
        ops::copy(*parts_.compute, p.master, p.value);
    parts_.compute->finish();
  }
}

}  // namespace cleave::engine
