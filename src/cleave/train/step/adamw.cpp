#include "cleave/train/step/adamw.h"

#include "cleave/base/elementary.h"
#include "cleave/ops/adamw.h"
#include "cleave/train/step/learning_rate.h"

namespace cleave::train {

void AdamW::begin_step(std::int64_t step) {
  step_ = step;
  lr_ = learning_rate(train_, step);
}

void AdamW::update(ops::Compute& compute, const engine::ParameterState& parameter,
                   double gradient_scale) {
  const std::int64_t taken = step_ + 1;
  const ops::AdamwHyper hyper{
      .lr = lr_,
      .beta1 = train_.betas[0],
      .beta2 = train_.betas[1],
      .weight_decay = parameter.spec->decay == Decay::Yes ? train_.weight_decay : 0,
      .bias_correction1 = 1 - power(train_.betas[0], taken),
      .bias_correction2 = 1 - power(train_.betas[1], taken),
      .gradient_scale = gradient_scale};
  const bool separate = parameter.value.bytes() != parameter.master.bytes();
  ops::adamw(compute,
             {.master = parameter.master,
              .m = parameter.m,
              .v = parameter.v,
              .gradient = parameter.gradient,
              .copy = separate ? parameter.value : View()},
             hyper);
}

}  // namespace cleave::train
