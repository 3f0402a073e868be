// An optimizer of your own: a row that says what it keeps beside a parameter and how it moves one.
// Memory, what replicas share, checkpoints and traffic follow from its slots. Here: every element
// moves by the learning rate, in the direction of a running mean of its gradients (Bernstein et al.
// 2018).

#include "train_with.h"

#include "cleave/engine/stage/add_optimizer.h"
#include "cleave/ops/elementwise.h"

namespace {

using cleave::engine::ParameterState;

/// `parameter` is any range of elements, wherever a layout has cut it.
void update(cleave::ops::Compute& compute, const ParameterState& parameter,
            const cleave::engine::UpdateStep& at) {
  const auto scale = static_cast<float>(at.gradient_scale);  // of clipping
  const auto lr = static_cast<float>(at.lr);
  const float* gradient = parameter.gradient.as<float>();
  float* mean = parameter.slot("mean").as<float>();
  float* weight = parameter.master.as<float>();
  for (std::int64_t i = 0; i < parameter.elements(); ++i) {
    mean[i] = 0.9f * mean[i] + 0.1f * scale * gradient[i];
    weight[i] -= mean[i] > 0 ? lr : mean[i] < 0 ? -lr : 0;
  }
  // In bf16 devices compute with a copy of the weights.
  if (parameter.value.bytes() != parameter.master.bytes())
    cleave::ops::copy(compute, parameter.master, parameter.value);
}

}  // namespace

int main() {
  cleave::engine::add_optimizer(
      {.name = "signum",
       .slots = [](const auto&, const auto&) { return std::vector<std::string>{"mean"}; },
       .update = update});

  const auto one = example::train_with({"train.optimizer=signum", "train.lr=1e-3"});
  const auto four =
      example::train_with({"train.optimizer=signum", "train.lr=1e-3", "parallel.pipeline=2",
                           "parallel.tensor=2", "train.out=example_out_4"});
  return example::check(one, four);
}
