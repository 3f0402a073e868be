#include "cleave/ops/adamw.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cleave/ops/simd/adamw.cpp"
#include <cmath>

#include <hwy/foreach_target.h>

#include "cleave/ops/device/update.h"
#include "cleave/ops/simd/rows.h"
#include "cleave/ops/simd/vector-inl.h"

#ifndef CLEAVE_OPS_SIMD_ADAMW_
#define CLEAVE_OPS_SIMD_ADAMW_
namespace cleave::ops {

struct AdamwRange {
  float* master;
  float* m;
  float* v;
  const float* gradient;
  BFloat16* copy;
  std::size_t n;
};

}  // namespace cleave::ops
#endif

HWY_BEFORE_NAMESPACE();
namespace cleave::ops::HWY_NAMESPACE {
namespace {

template <bool kCopy>
void update(const AdamwRange& r, const AdamwFactors& f) {
  for_vectors(r.n, [=](std::size_t i, auto part) HWY_ATTR {
    const Vec g = hn::Mul(load(r.gradient + i, part), set(f.gradient_scale));
    const Vec m = mul_add(load(r.m + i, part), set(f.keep1), hn::Mul(g, set(f.take1)));
    const Vec v = mul_add(load(r.v + i, part), set(f.keep2), hn::Mul(hn::Mul(g, g), set(f.take2)));
    const Vec root = mul_add(hn::Sqrt(v), set(f.unbias), set(f.eps));
    const Vec decayed = hn::Mul(load(r.master + i, part), set(f.decay));
    const Vec master = neg_mul_add(set(f.step), hn::Div(m, root), decayed);
    store(m, r.m + i, part);
    store(v, r.v + i, part);
    store(master, r.master + i, part);
    if constexpr (kCopy) store(master, r.copy + i, part);
  });
}

void adamw_range(const AdamwRange& range, const AdamwFactors& factors) {
  if (range.copy != nullptr) {
    update<true>(range, factors);
  } else {
    update<false>(range, factors);
  }
}

}  // namespace
}  // namespace cleave::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cleave::ops {

HWY_EXPORT(adamw_range);

void adamw(Compute& compute, const AdamwArgs& args, const AdamwHyper& hyper) {
  const std::int64_t count = args.master.elements();
  for (ConstView view :
       {ConstView(args.master), ConstView(args.m), ConstView(args.v), args.gradient}) {
    CLEAVE_CHECK(view.dense() && view.dtype() == DType::F32 && view.elements() == count,
                 "adamw on ", to_string(view.dtype()), " ", to_string(view.shape()), " of ", count);
  }
  if (args.copy) {
    CLEAVE_CHECK(args.copy.dense() && args.copy.elements() == count, "adamw copy ",
                 to_string(args.copy.shape()), " of ", count);
  }
  const AdamwFactors factors = {
      .gradient_scale = static_cast<float>(hyper.gradient_scale),
      .keep1 = static_cast<float>(hyper.beta1),
      .take1 = static_cast<float>(1 - hyper.beta1),
      .keep2 = static_cast<float>(hyper.beta2),
      .take2 = static_cast<float>(1 - hyper.beta2),
      .unbias = static_cast<float>(1 / std::sqrt(hyper.bias_correction2)),
      .eps = static_cast<float>(hyper.eps),
      .decay = static_cast<float>(1 - hyper.lr * hyper.weight_decay),
      .step = static_cast<float>(hyper.lr / hyper.bias_correction1),
  };
  if (Accelerator* device = compute.accelerator()) return device::adamw(*device, args, factors);
  parallel_for(compute, count, kSpanGrain, [&](std::int64_t begin, std::int64_t end) {
    const AdamwRange range = {
        .master = args.master.as<float>() + begin,
        .m = args.m.as<float>() + begin,
        .v = args.v.as<float>() + begin,
        .gradient = args.gradient.as<float>() + begin,
        .copy = args.copy ? args.copy.as<BFloat16>() + begin : nullptr,
        .n = static_cast<std::size_t>(end - begin),
    };
    HWY_DYNAMIC_DISPATCH(adamw_range)(range, factors);
  });
}

}  // namespace cleave::ops
#endif
