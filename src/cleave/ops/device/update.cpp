#include "cleave/ops/device/update.h"

#include "cleave/ops/device/run.h"

namespace cleave::ops::device {

void adamw(Accelerator& device, const AdamwArgs& args, const AdamwFactors& f) {
  const std::int64_t count = args.master.elements();
  run_items(device, "adamw", DType::F32, count, count, args.master, args.m, args.v, args.gradient,
            args.copy, f.gradient_scale, f.keep1, f.take1, f.keep2, f.take2, f.unbias, f.eps,
            f.decay, f.step);
}

void sgd(Accelerator& device, const MomentumArgs& args, const SgdFactors& f) {
  const std::int64_t count = args.master.elements();
  run_items(device, "sgd", DType::F32, count, count, args.master, args.momentum, args.gradient,
            args.copy, f.gradient_scale, f.decay, f.keep, f.lr);
}

void lion(Accelerator& device, const MomentumArgs& args, const LionFactors& f) {
  const std::int64_t count = args.master.elements();
  run_items(device, "lion", DType::F32, count, count, args.master, args.momentum, args.gradient,
            args.copy, f.gradient_scale, f.keep1, f.take1, f.keep2, f.take2, f.decay, f.lr);
}

}  // namespace cleave::ops::device
