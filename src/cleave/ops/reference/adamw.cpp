#include "cleave/ops/reference/adamw.h"

#include <cmath>

#include "cleave/tensor/bf16.h"

namespace cleave::ops::reference {

void adamw(const AdamwArgs& args, const AdamwHyper& hyper) {
  for (std::int64_t i = 0; i < args.master.elements(); ++i) {
    const double g = args.gradient.as<float>()[i] * hyper.gradient_scale;
    const double m = hyper.beta1 * args.m.as<float>()[i] + (1 - hyper.beta1) * g;
    const double v = hyper.beta2 * args.v.as<float>()[i] + (1 - hyper.beta2) * g * g;
    const double decayed = args.master.as<float>()[i] * (1 - hyper.lr * hyper.weight_decay);
    const double root = std::sqrt(v / hyper.bias_correction2) + hyper.eps;
    args.m.as<float>()[i] = static_cast<float>(m);
    args.v.as<float>()[i] = static_cast<float>(v);
    args.master.as<float>()[i] =
        static_cast<float>(decayed - hyper.lr / hyper.bias_correction1 * m / root);
    if (args.copy) args.copy.as<BFloat16>()[i] = to_bf16(args.master.as<float>()[i]);
  }
}

}  // namespace cleave::ops::reference
