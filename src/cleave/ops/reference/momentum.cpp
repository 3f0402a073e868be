#include "cleave/ops/reference/momentum.h"

#include <cmath>

#include "cleave/tensor/bf16.h"

namespace cleave::ops::reference {
namespace {

void set_master(const MomentumArgs& args, std::int64_t i, float value) {
  args.master.as<float>()[i] = value;
  if (args.copy) args.copy.as<BFloat16>()[i] = to_bf16(value);
}

float rounded(double value) {
  return static_cast<float>(value);
}

}  // namespace

void sgd(const MomentumArgs& args, const SgdHyper& hyper) {
  for (std::int64_t i = 0; i < args.master.elements(); ++i) {
    const float master = args.master.as<float>()[i];
    const float scaled = args.gradient.as<float>()[i] * rounded(hyper.gradient_scale);
    float g = std::fma(master, rounded(hyper.weight_decay), scaled);
    if (args.momentum) {
      g = std::fma(args.momentum.as<float>()[i], rounded(hyper.momentum), g);
      args.momentum.as<float>()[i] = g;
    }
    set_master(args, i, std::fma(-rounded(hyper.lr), g, master));
  }
}

void lion(const MomentumArgs& args, const LionHyper& hyper) {
  for (std::int64_t i = 0; i < args.master.elements(); ++i) {
    float& momentum = args.momentum.as<float>()[i];
    const float g = args.gradient.as<float>()[i] * rounded(hyper.gradient_scale);
    const float mixed = std::fma(momentum, rounded(hyper.beta1), g * rounded(1 - hyper.beta1));
    const float sign = mixed > 0 ? 1.0f : mixed < 0 ? -1.0f : 0.0f;
    const float decayed = args.master.as<float>()[i] * rounded(1 - hyper.lr * hyper.weight_decay);
    momentum = std::fma(momentum, rounded(hyper.beta2), g * rounded(1 - hyper.beta2));
    set_master(args, i, std::fma(-rounded(hyper.lr), sign, decayed));
  }
}

}  // namespace cleave::ops::reference
