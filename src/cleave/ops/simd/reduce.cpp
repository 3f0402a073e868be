#include "cleave/ops/reduce.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cleave/ops/simd/reduce.cpp"
#include <algorithm>
#include <atomic>

#include <hwy/foreach_target.h>

#include "cleave/ops/device/reduction.h"
#include "cleave/ops/simd/rows.h"
#include "cleave/ops/simd/vector-inl.h"

#ifndef CLEAVE_OPS_SIMD_REDUCE_
#define CLEAVE_OPS_SIMD_REDUCE_
namespace cleave::ops {

/// Columns whose sums one call holds on its stack.
inline constexpr std::int64_t kSumColumns = 1024;

/// Partial sums of a block of squares.
inline constexpr std::size_t kSquareSlots = 32;

}  // namespace cleave::ops
#endif

HWY_BEFORE_NAMESPACE();
namespace cleave::ops::HWY_NAMESPACE {
namespace {

/// Eight rows at a time, so that the running sums are read and written once for eight elements.
template <class T>
void column_sums(const T* a, std::int64_t stride, std::int64_t rows, float* out, std::size_t n) {
  float sums[kSumColumns] = {};
  std::int64_t row = 0;
  for (; row + 8 <= rows; row += 8) {
    const T* p = a + row * stride;
    for_vectors(n, [=, &sums](std::size_t i, auto part) HWY_ATTR {
      const auto at = [=](std::int64_t r) HWY_ATTR { return load(p + r * stride + i, part); };
      const Vec low = hn::Add(hn::Add(at(0), at(1)), hn::Add(at(2), at(3)));
      const Vec high = hn::Add(hn::Add(at(4), at(5)), hn::Add(at(6), at(7)));
      store(hn::Add(load(sums + i, part), hn::Add(low, high)), sums + i, part);
    });
  }
  for (; row < rows; ++row) {
    const T* p = a + row * stride;
    for_vectors(n, [=, &sums](std::size_t i, auto part) HWY_ATTR {
      store(hn::Add(load(sums + i, part), load(p + i, part)), sums + i, part);
    });
  }
  for_vectors(n, [=, &sums](std::size_t i, auto part) HWY_ATTR {
    store(hn::Add(load(out + i, part), load(sums + i, part)), out + i, part);
  });
}

void add_sums(DType dtype, const std::byte* a, std::int64_t stride, std::int64_t rows, float* out,
              std::size_t n) {
  with_element(dtype, [=](auto element) HWY_ATTR {
    column_sums(reinterpret_cast<const decltype(element)*>(a), stride, rows, out, n);
  });
}

/// Sums up 32 slots of f64, element i in slot i % 32: four rows of eight, which are added pairwise,
/// and then by halves of the row. A tail is padded by zeros.
double square_sum(const float* a, std::size_t n) {
  const hn::ScalableTag<double> wide;
  const hn::Rebind<float, decltype(wide)> narrow;
  constexpr std::size_t kDoubles = HWY_LANES(double);
  constexpr std::size_t kVectors = kSquareSlots / kDoubles;
  hn::Vec<decltype(wide)> sums[kVectors];
#pragma GCC unroll 16
  for (std::size_t v = 0; v < kVectors; ++v) sums[v] = hn::Zero(wide);
  const auto add_squares = [&](const float* p) HWY_ATTR {
#pragma GCC unroll 16
    for (std::size_t v = 0; v < kVectors; ++v) {
      const auto value = hn::PromoteTo(wide, hn::LoadU(narrow, p + v * kDoubles));
      // The square of an f32 is exact in f64, so that fusing would change nothing.
      sums[v] = hn::Add(sums[v], hn::Mul(value, value));
    }
  };
  std::size_t i = 0;
  for (; i + kSquareSlots <= n; i += kSquareSlots) add_squares(a + i);
  if (i < n) {
    float tail[kSquareSlots] = {};
    std::memcpy(tail, a + i, (n - i) * sizeof(float));
    add_squares(tail);
  }
  double slots[kSquareSlots];
  for (std::size_t v = 0; v < kVectors; ++v) hn::StoreU(sums[v], wide, slots + v * kDoubles);
  double row[8];
  for (int j = 0; j < 8; ++j) row[j] = (slots[j] + slots[8 + j]) + (slots[16 + j] + slots[24 + j]);
  for (int half = 4; half > 0; half /= 2) {
    for (int j = 0; j < half; ++j) row[j] += row[j + half];
  }
  return row[0];
}

/// Zero times an element is zero, unless the element is infinite or NaN: then the sum is NaN.
bool finite_span(DType dtype, const std::byte* a, std::size_t n) {
  float sum = 0;
  with_element(dtype, [=, &sum](auto element) HWY_ATTR {
    const auto* p = reinterpret_cast<const decltype(element)*>(a);
    sum = sum_vectors(n, [=](std::size_t i, auto part)
                             HWY_ATTR { return hn::Mul(load(p + i, part), set(0.0f)); });
  });
  return sum == 0;
}

}  // namespace
}  // namespace cleave::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cleave::ops {

HWY_EXPORT(add_sums);
HWY_EXPORT(square_sum);
HWY_EXPORT(finite_span);

void add_column_sums(Compute& compute, ConstView a, View out) {
  CLEAVE_CHECK(a.rank() == 2, "column sums of ", to_string(a.shape()));
  check_float("column sums a", a);
  check_view("column sums a", a, a.dtype(), a.shape());
  check_view("column sums out", out, DType::F32, {a.size(1)});
  if (Accelerator* device = compute.accelerator()) return device::add_column_sums(*device, a, out);
  parallel_for(compute, a.size(1), 128, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t column = begin; column < end; column += kSumColumns) {
      HWY_DYNAMIC_DISPATCH(add_sums)
      (a.dtype(), row_bytes(a, 0, column), a.stride(0), a.size(0), out.as<float>() + column,
       std::min(kSumColumns, end - column));
    }
  });
}

void sum_of_squares(Compute& compute, ConstView a, std::span<double> blocks) {
  const std::int64_t n = a.elements();
  const std::int64_t count = (n + kSquaresBlock - 1) / kSquaresBlock;
  CLEAVE_CHECK(a.dense() && a.dtype() == DType::F32, "sum of squares of ", to_string(a.shape()));
  CLEAVE_CHECK(static_cast<std::int64_t>(blocks.size()) == count, blocks.size(), " blocks for ", n,
               " elements");
  if (Accelerator* device = compute.accelerator())
    return device::sum_of_squares(*device, a, blocks, compute.scratch());
  const float* elements = a.as<float>();
  parallel_for(compute, count, 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = begin; block < end; ++block) {
      const std::int64_t first = block * kSquaresBlock;
      blocks[block] =
          HWY_DYNAMIC_DISPATCH(square_sum)(elements + first, std::min(kSquaresBlock, n - first));
    }
  });
}

bool all_finite(Compute& compute, ConstView a) {
  check_float("all_finite a", a);
  check_view("all_finite a", a, a.dtype(), a.shape());
  if (Accelerator* device = compute.accelerator()) return device::all_finite(*device, a);
  std::atomic<bool> finite = true;
  for_spans(compute, {a}, [&](std::int64_t row, std::int64_t column, std::int64_t n) {
    if (!HWY_DYNAMIC_DISPATCH(finite_span)(a.dtype(), row_bytes(a, row, column), n)) {
      finite = false;
    }
  });
  return finite;
}

}  // namespace cleave::ops
#endif
