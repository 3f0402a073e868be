#include "cleave/ops/norm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cleave/ops/simd/norm.cpp"
#include <cmath>

#include <hwy/foreach_target.h>

#include "cleave/ops/device/reduction.h"
#include "cleave/ops/simd/rows.h"
#include "cleave/ops/simd/vector-inl.h"
#include "cleave/spec/kernel_scratch.h"

// RMSNorm is LayerNorm with mean and bias left out, and so are its arguments here.

HWY_BEFORE_NAMESPACE();
namespace cleave::ops::HWY_NAMESPACE {
namespace {

/// How a norm is computed. Centred: the mean is taken off, and there is a bias.
struct LayerForm {
  static constexpr bool kCentred = true;
  static HWY_INLINE Vec factor(Vec weight) { return weight; }
};
struct RmsForm {
  static constexpr bool kCentred = false;
  static HWY_INLINE Vec factor(Vec weight) { return weight; }
};
struct OnePlusRmsForm {
  static constexpr bool kCentred = false;
  static HWY_INLINE Vec factor(Vec weight) { return hn::Add(weight, set(1.0f)); }
};

template <class T, class Form>
void forward_row(const LayernormArgs& args, std::int64_t row) {
  constexpr bool kCentred = Form::kCentred;
  const std::size_t hidden = args.x.size(1);
  const float count = static_cast<float>(hidden);
  const T* x = row_of<T>(args.x, row);
  const T* weight = row_of<T>(args.weight, 0);
  const T* bias = row_of<T>(args.bias, 0);
  T* y = row_of<T>(args.y, row);

  float mean = 0;
  if constexpr (kCentred) {
    mean =
        sum_vectors(hidden, [=](std::size_t i, auto part) HWY_ATTR { return load(x + i, part); });
    mean /= count;
  }
  const auto centred = [=](std::size_t i, auto part) HWY_ATTR {
    if constexpr (kCentred) return hn::Sub(load(x + i, part), set(mean));
    return load(x + i, part);
  };
  const float squares = sum_vectors(hidden, [=](std::size_t i, auto part) HWY_ATTR {
    const Vec v = centred(i, part);
    return hn::Mul(v, v);
  });
  const float rstd = 1.0f / std::sqrt(squares / count + args.eps);

  for_vectors(hidden, [=](std::size_t i, auto part) HWY_ATTR {
    const Vec xhat = hn::Mul(centred(i, part), set(rstd));
    const Vec w = Form::factor(load(weight + i, part));
    if constexpr (kCentred) {
      store(mul_add(xhat, w, load(bias + i, part)), y + i, part);
    } else {
      store(hn::Mul(xhat, w), y + i, part);
    }
  });
  if (args.mean) *row_of<float>(args.mean, row) = mean;
  if (args.rstd) *row_of<float>(args.rstd, row) = rstd;
}

template <class Form>
void forward_rows(const LayernormArgs& args, std::int64_t begin, std::int64_t end) {
  with_element(args.x.dtype(), [&](auto element) HWY_ATTR {
    for (std::int64_t row = begin; row < end; ++row) {
      forward_row<decltype(element), Form>(args, row);
    }
  });
}

/// With xhat = (x - mean) rstd and g = dy weight:
///   dx = rstd (g - mean(g) - xhat mean(g xhat)) + add,  dweight += dy xhat,  dbias += dy.
template <class T, class Form>
void backward_row(const LayernormBackwardArgs& args, std::int64_t row, float* dweight,
                  float* dbias) {
  constexpr bool kCentred = Form::kCentred;
  const std::size_t hidden = args.x.size(1);
  const float count = static_cast<float>(hidden);
  const T* dy = row_of<T>(args.dy, row);
  const T* x = row_of<T>(args.x, row);
  const T* weight = row_of<T>(args.weight, 0);
  const T* add = args.add ? row_of<T>(args.add, row) : nullptr;
  T* dx = row_of<T>(args.dx, row);
  const Vec mean = set(kCentred ? *row_of<float>(args.mean, row) : 0.0f);
  const Vec rstd = set(*row_of<float>(args.rstd, row));

  const auto normalized = [=](std::size_t i, auto part) HWY_ATTR {
    if constexpr (kCentred) return hn::Mul(hn::Sub(load(x + i, part), mean), rstd);
    return hn::Mul(load(x + i, part), rstd);
  };
  // The sums of g xhat and, where the mean is taken off, of g.
  float totals[2] = {};
  sum_vectors<kCentred ? 2 : 1>(hidden, totals, [=](std::size_t i, auto part, Vec* sums) HWY_ATTR {
    const Vec d = load(dy + i, part);
    const Vec xhat = normalized(i, part);
    const Vec g = hn::Mul(d, Form::factor(load(weight + i, part)));
    sums[0] = mul_add(g, xhat, sums[0]);
    store(mul_add(d, xhat, load(dweight + i, part)), dweight + i, part);
    if constexpr (kCentred) {
      sums[1] = hn::Add(sums[1], g);
      store(hn::Add(d, load(dbias + i, part)), dbias + i, part);
    }
  });
  const Vec mean_along = set(totals[0] / count);
  const Vec mean_g = set(totals[1] / count);

  for_vectors(hidden, [=](std::size_t i, auto part) HWY_ATTR {
    Vec g = hn::Mul(load(dy + i, part), Form::factor(load(weight + i, part)));
    if constexpr (kCentred) g = hn::Sub(g, mean_g);
    g = hn::Mul(rstd, neg_mul_add(normalized(i, part), mean_along, g));
    if (add != nullptr) g = hn::Add(g, load(add + i, part));
    store(g, dx + i, part);
  });
}

template <class Form>
void backward_rows(const LayernormBackwardArgs& args, std::int64_t begin, std::int64_t end,
                   float* partial) {
  const std::int64_t hidden = args.x.size(1);
  std::memset(partial, 0, (Form::kCentred ? 2 : 1) * hidden * sizeof(float));
  with_element(args.x.dtype(), [&](auto element) HWY_ATTR {
    for (std::int64_t row = begin; row < end; ++row) {
      backward_row<decltype(element), Form>(args, row, partial, partial + hidden);
    }
  });
}

void layernorm_rows(const LayernormArgs& args, std::int64_t begin, std::int64_t end) {
  forward_rows<LayerForm>(args, begin, end);
}
void rmsnorm_rows(const LayernormArgs& args, std::int64_t begin, std::int64_t end) {
  forward_rows<RmsForm>(args, begin, end);
}
void one_plus_rmsnorm_rows(const LayernormArgs& args, std::int64_t begin, std::int64_t end) {
  forward_rows<OnePlusRmsForm>(args, begin, end);
}
void layernorm_slice(const LayernormBackwardArgs& args, std::int64_t begin, std::int64_t end,
                     float* partial) {
  backward_rows<LayerForm>(args, begin, end, partial);
}
void rmsnorm_slice(const LayernormBackwardArgs& args, std::int64_t begin, std::int64_t end,
                   float* partial) {
  backward_rows<RmsForm>(args, begin, end, partial);
}
void one_plus_rmsnorm_slice(const LayernormBackwardArgs& args, std::int64_t begin, std::int64_t end,
                            float* partial) {
  backward_rows<OnePlusRmsForm>(args, begin, end, partial);
}

/// out = partial[0] + partial[1] + …, in this order; `stride` between partial sums.
void add_partials(const float* partial, std::int64_t count, std::int64_t stride, float* out,
                  std::size_t n) {
  for_vectors(n, [=](std::size_t i, auto part) HWY_ATTR {
    Vec sum = load(partial + i, part);
    for (std::int64_t slice = 1; slice < count; ++slice) {
      sum = hn::Add(sum, load(partial + slice * stride + i, part));
    }
    store(sum, out + i, part);
  });
}

}  // namespace
}  // namespace cleave::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cleave::ops {

HWY_EXPORT(layernorm_rows);
HWY_EXPORT(rmsnorm_rows);
HWY_EXPORT(one_plus_rmsnorm_rows);
HWY_EXPORT(layernorm_slice);
HWY_EXPORT(rmsnorm_slice);
HWY_EXPORT(one_plus_rmsnorm_slice);
HWY_EXPORT(add_partials);

namespace {

using RowKernel = void (*)(const LayernormArgs&, std::int64_t begin, std::int64_t end);
using SliceKernel = void (*)(const LayernormBackwardArgs&, std::int64_t begin, std::int64_t end,
                             float* partial);

void run_forward(Compute& compute, const LayernormArgs& args, RowKernel kernel,
                 NormWeight form = NormWeight::Plain) {
  const Shape matrix = args.x.shape();
  const DType dtype = args.x.dtype();
  CLEAVE_CHECK(matrix.rank() == 2, "norm of ", to_string(matrix));
  check_float("norm x", args.x);
  check_view("norm x", args.x, dtype, matrix);
  check_view("norm weight", args.weight, dtype, {matrix[1]});
  if (args.bias) check_view("norm bias", args.bias, dtype, {matrix[1]});
  check_view("norm y", args.y, dtype, matrix);
  if (args.mean) check_view("norm mean", args.mean, DType::F32, {matrix[0]});
  if (args.rstd) check_view("norm rstd", args.rstd, DType::F32, {matrix[0]});
  if (Accelerator* device = compute.accelerator()) return device::norm(*device, args, form);
  parallel_for(compute, matrix[0], 8,
               [&](std::int64_t begin, std::int64_t end) { kernel(args, begin, end); });
}

void check_backward(const LayernormBackwardArgs& args) {
  const Shape matrix = args.x.shape();
  const DType dtype = args.x.dtype();
  CLEAVE_CHECK(matrix.rank() == 2, "norm of ", to_string(matrix));
  check_float("norm x", args.x);
  check_view("norm x", args.x, dtype, matrix);
  check_view("norm dy", args.dy, dtype, matrix);
  check_view("norm weight", args.weight, dtype, {matrix[1]});
  if (args.mean) check_view("norm mean", args.mean, DType::F32, {matrix[0]});
  check_view("norm rstd", args.rstd, DType::F32, {matrix[0]});
  if (args.add) check_view("norm add", args.add, dtype, matrix);
  check_view("norm dx", args.dx, dtype, matrix);
  check_view("norm dweight", args.dweight, DType::F32, {matrix[1]});
  if (args.dbias) check_view("norm dbias", args.dbias, DType::F32, {matrix[1]});
}

void run_backward(Compute& compute, const LayernormBackwardArgs& args, SliceKernel kernel,
                  NormWeight form = NormWeight::Plain) {
  check_backward(args);
  if (Accelerator* device = compute.accelerator())
    return device::norm_backward(*device, args, form);
  const std::int64_t tokens = args.x.size(0);
  const std::int64_t hidden = args.x.size(1);
  const TokenSlices slices = token_slices(tokens);
  const std::int64_t stride = (args.dbias ? 2 : 1) * hidden;
  CLEAVE_CHECK(compute.scratch().size() >= slices.count * stride * sizeof(float), "scratch of ",
               compute.scratch().size(), " bytes for norm backward of ", to_string(args.x.shape()));
  auto* partial = reinterpret_cast<float*>(compute.scratch().data());

  parallel_for(compute, slices.count, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t slice = begin; slice < end; ++slice) {
      kernel(args, slice * slices.tokens, std::min(tokens, (slice + 1) * slices.tokens),
             partial + slice * stride);
    }
  });
  parallel_for(compute, hidden, 1024, [&](std::int64_t begin, std::int64_t end) {
    const auto combine = HWY_DYNAMIC_DISPATCH(add_partials);
    combine(partial + begin, slices.count, stride, args.dweight.as<float>() + begin, end - begin);
    if (!args.dbias) return;
    combine(partial + hidden + begin, slices.count, stride, args.dbias.as<float>() + begin,
            end - begin);
  });
}

}  // namespace

void layernorm(Compute& compute, const LayernormArgs& args) {
  run_forward(compute, args, HWY_DYNAMIC_DISPATCH(layernorm_rows));
}

void rmsnorm(Compute& compute, const RmsnormArgs& args) {
  run_forward(compute,
              {.x = args.x, .weight = args.weight, .eps = args.eps, .y = args.y, .rstd = args.rstd},
              args.form == NormWeight::OnePlus ? HWY_DYNAMIC_DISPATCH(one_plus_rmsnorm_rows)
                                               : HWY_DYNAMIC_DISPATCH(rmsnorm_rows),
              args.form);
}

void layernorm_backward(Compute& compute, const LayernormBackwardArgs& args) {
  run_backward(compute, args, HWY_DYNAMIC_DISPATCH(layernorm_slice));
}

void rmsnorm_backward(Compute& compute, const RmsnormBackwardArgs& args) {
  run_backward(compute,
               {.dy = args.dy,
                .x = args.x,
                .weight = args.weight,
                .rstd = args.rstd,
                .add = args.add,
                .dx = args.dx,
                .dweight = args.dweight},
               args.form == NormWeight::OnePlus ? HWY_DYNAMIC_DISPATCH(one_plus_rmsnorm_slice)
                                                : HWY_DYNAMIC_DISPATCH(rmsnorm_slice),
               args.form);
}

}  // namespace cleave::ops
#endif
