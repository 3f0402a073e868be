#include "cleave/ops/momentum.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cleave/ops/simd/momentum.cpp"
#include <hwy/foreach_target.h>

#include "cleave/ops/device/update.h"
#include "cleave/ops/simd/rows.h"
#include "cleave/ops/simd/vector-inl.h"

#ifndef CLEAVE_OPS_SIMD_MOMENTUM_
#define CLEAVE_OPS_SIMD_MOMENTUM_
namespace cleave::ops {

struct MomentumRange {
  float* master;
  float* momentum;
  const float* gradient;
  BFloat16* copy;
  std::size_t n;
};

}  // namespace cleave::ops
#endif

HWY_BEFORE_NAMESPACE();
namespace cleave::ops::HWY_NAMESPACE {
namespace {

/// The master, and its copy where there is one.
template <class Part>
HWY_INLINE void store_master(Vec master, const MomentumRange& r, std::size_t i, Part part) {
  store(master, r.master + i, part);
  if (r.copy != nullptr) store(master, r.copy + i, part);
}

void sgd_range(const MomentumRange& r, const SgdFactors& f) {
  for_vectors(r.n, [=](std::size_t i, auto part) HWY_ATTR {
    const Vec master = load(r.master + i, part);
    const Vec scaled = hn::Mul(load(r.gradient + i, part), set(f.gradient_scale));
    Vec g = mul_add(master, set(f.decay), scaled);
    if (r.momentum != nullptr) {
      g = mul_add(load(r.momentum + i, part), set(f.keep), g);
      store(g, r.momentum + i, part);
    }
    store_master(neg_mul_add(set(f.lr), g, master), r, i, part);
  });
}

void lion_range(const MomentumRange& r, const LionFactors& f) {
  for_vectors(r.n, [=](std::size_t i, auto part) HWY_ATTR {
    const Vec g = hn::Mul(load(r.gradient + i, part), set(f.gradient_scale));
    const Vec momentum = load(r.momentum + i, part);
    const Vec mixed = mul_add(momentum, set(f.keep1), hn::Mul(g, set(f.take1)));
    const Vec one = hn::CopySign(set(1.0f), mixed);
    const Vec sign = hn::IfThenZeroElse(hn::Eq(mixed, hn::Zero(F32())), one);
    const Vec decayed = hn::Mul(load(r.master + i, part), set(f.decay));
    store(mul_add(momentum, set(f.keep2), hn::Mul(g, set(f.take2))), r.momentum + i, part);
    store_master(neg_mul_add(set(f.lr), sign, decayed), r, i, part);
  });
}

}  // namespace
}  // namespace cleave::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cleave::ops {

HWY_EXPORT(sgd_range);
HWY_EXPORT(lion_range);

namespace {

void check_momentum(const char* name, const MomentumArgs& args) {
  const std::int64_t count = args.master.elements();
  for (ConstView view : {ConstView(args.master), ConstView(args.momentum), args.gradient}) {
    if (!view && view.bytes() == args.momentum.bytes()) continue;
    CLEAVE_CHECK(view.dense() && view.dtype() == DType::F32 && view.elements() == count, name,
                 " on ", to_string(view.dtype()), " ", to_string(view.shape()), " of ", count);
  }
  CLEAVE_CHECK(!args.copy || (args.copy.dense() && args.copy.elements() == count), name, " copy ",
               to_string(args.copy.shape()), " of ", count);
}

/// Calls fn(range) on pieces that cover every element once.
template <class Fn>
void for_ranges(Compute& compute, const MomentumArgs& args, const Fn& fn) {
  parallel_for(compute, args.master.elements(), kSpanGrain,
               [&](std::int64_t begin, std::int64_t end) {
                 fn({.master = args.master.as<float>() + begin,
                     .momentum = args.momentum ? args.momentum.as<float>() + begin : nullptr,
                     .gradient = args.gradient.as<float>() + begin,
                     .copy = args.copy ? args.copy.as<BFloat16>() + begin : nullptr,
                     .n = static_cast<std::size_t>(end - begin)});
               });
}

}  // namespace

void sgd(Compute& compute, const MomentumArgs& args, const SgdHyper& hyper) {
  check_momentum("sgd", args);
  const SgdFactors factors = {.gradient_scale = static_cast<float>(hyper.gradient_scale),
                              .decay = static_cast<float>(hyper.weight_decay),
                              .keep = static_cast<float>(hyper.momentum),
                              .lr = static_cast<float>(hyper.lr)};
  if (Accelerator* device = compute.accelerator()) return device::sgd(*device, args, factors);
  for_ranges(compute, args, [&](const MomentumRange& range) {
    HWY_DYNAMIC_DISPATCH(sgd_range)(range, factors);
  });
}

void lion(Compute& compute, const MomentumArgs& args, const LionHyper& hyper) {
  check_momentum("lion", args);
  CLEAVE_CHECK(args.momentum, "lion has no momentum");
  const LionFactors factors = {.gradient_scale = static_cast<float>(hyper.gradient_scale),
                               .keep1 = static_cast<float>(hyper.beta1),
                               .take1 = static_cast<float>(1 - hyper.beta1),
                               .keep2 = static_cast<float>(hyper.beta2),
                               .take2 = static_cast<float>(1 - hyper.beta2),
                               .decay = static_cast<float>(1 - hyper.lr * hyper.weight_decay),
                               .lr = static_cast<float>(hyper.lr)};
  if (Accelerator* device = compute.accelerator()) return device::lion(*device, args, factors);
  for_ranges(compute, args, [&](const MomentumRange& range) {
    HWY_DYNAMIC_DISPATCH(lion_range)(range, factors);
  });
}

}  // namespace cleave::ops
#endif
