#include "cleave/ops/elementwise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cleave/ops/simd/elementwise.cpp"
#include <hwy/foreach_target.h>

#include "cleave/ops/device/elementwise.h"
#include "cleave/ops/simd/rows.h"
#include "cleave/ops/simd/spans.h"
#include "cleave/ops/simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cleave::ops::HWY_NAMESPACE {
namespace {

void add_elements(DType dtype, const std::byte* a, const std::byte* b, std::byte* out,
                  std::size_t n) {
  with_element(dtype, [=](auto element) HWY_ATTR {
    using T = decltype(element);
    const T* left = reinterpret_cast<const T*>(a);
    const T* right = reinterpret_cast<const T*>(b);
    T* sum = reinterpret_cast<T*>(out);
    for_vectors(n, [=](std::size_t i, auto part) HWY_ATTR {
      store(hn::Add(load(left + i, part), load(right + i, part)), sum + i, part);
    });
  });
}

void accumulate_elements(DType dtype, const std::byte* a, float* out, std::size_t n) {
  with_element(dtype, [=](auto element) HWY_ATTR {
    const auto* from = reinterpret_cast<const decltype(element)*>(a);
    for_vectors(n, [=](std::size_t i, auto part) HWY_ATTR {
      store(hn::Add(load(out + i, part), load(from + i, part)), out + i, part);
    });
  });
}

void accumulate_scaled_elements(DType dtype, const std::byte* a, float factor, float* out,
                                std::size_t n) {
  with_element(dtype, [=](auto element) HWY_ATTR {
    const auto* from = reinterpret_cast<const decltype(element)*>(a);
    for_vectors(n, [=](std::size_t i, auto part) HWY_ATTR {
      const Vec scaled = hn::Mul(load(from + i, part), set(factor));
      store(hn::Add(load(out + i, part), scaled), out + i, part);
    });
  });
}

void scale_elements(DType dtype, const std::byte* a, float factor, std::byte* out, std::size_t n) {
  with_element(dtype, [=](auto element) HWY_ATTR {
    using T = decltype(element);
    const T* from = reinterpret_cast<const T*>(a);
    T* to = reinterpret_cast<T*>(out);
    for_vectors(n, [=](std::size_t i, auto part) HWY_ATTR {
      store(hn::Mul(load(from + i, part), set(factor)), to + i, part);
    });
  });
}

void weighted_elements(const float* a, float weight_a, const float* b, float weight_b, float* out,
                       std::size_t n) {
  for_vectors(n, [=](std::size_t i, auto part) HWY_ATTR {
    const Vec second = hn::Mul(load(b + i, part), set(weight_b));
    store(mul_add(load(a + i, part), set(weight_a), second), out + i, part);
  });
}

void fill_elements(DType dtype, float value, std::byte* out, std::size_t n) {
  with_element(dtype, [=](auto element) HWY_ATTR {
    auto* to = reinterpret_cast<decltype(element)*>(out);
    for_vectors(n, [=](std::size_t i, auto part) HWY_ATTR { store(set(value), to + i, part); });
  });
}

template <class From, class To>
void convert(const std::byte* a, std::byte* out, std::size_t n) {
  const From* from = reinterpret_cast<const From*>(a);
  To* to = reinterpret_cast<To*>(out);
  for_vectors(
      n, [=](std::size_t i, auto part) HWY_ATTR { store(load(from + i, part), to + i, part); });
}

void narrow_elements(const std::byte* a, std::byte* out, std::size_t n) {
  convert<float, BFloat16>(a, out, n);
}

void widen_elements(const std::byte* a, std::byte* out, std::size_t n) {
  convert<BFloat16, float>(a, out, n);
}

}  // namespace
}  // namespace cleave::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cleave::ops {

HWY_EXPORT(add_elements);
HWY_EXPORT(accumulate_elements);
HWY_EXPORT(accumulate_scaled_elements);
HWY_EXPORT(scale_elements);
HWY_EXPORT(weighted_elements);
HWY_EXPORT(fill_elements);
HWY_EXPORT(narrow_elements);
HWY_EXPORT(widen_elements);

void add_span(DType dtype, const std::byte* a, const std::byte* b, std::byte* out, std::size_t n) {
  HWY_DYNAMIC_DISPATCH(add_elements)(dtype, a, b, out, n);
}

void accumulate_span(DType dtype, const std::byte* a, float* out, std::size_t n) {
  HWY_DYNAMIC_DISPATCH(accumulate_elements)(dtype, a, out, n);
}

void scale_span(DType dtype, const std::byte* a, float factor, std::byte* out, std::size_t n) {
  HWY_DYNAMIC_DISPATCH(scale_elements)(dtype, a, factor, out, n);
}

void accumulate_scaled_span(DType dtype, const std::byte* a, float factor, float* out,
                            std::size_t n) {
  HWY_DYNAMIC_DISPATCH(accumulate_scaled_elements)(dtype, a, factor, out, n);
}

void add(Compute& compute, ConstView a, ConstView b, View out) {
  check_float("add a", a);
  check_view("add a", a, a.dtype(), a.shape());
  check_view("add b", b, a.dtype(), a.shape());
  check_view("add out", out, a.dtype(), a.shape());
  if (Accelerator* device = compute.accelerator()) return device::add(*device, a, b, out);
  for_spans(compute, {a, b, out}, [&](std::int64_t row, std::int64_t column, std::int64_t n) {
    add_span(a.dtype(), row_bytes(a, row, column), row_bytes(b, row, column),
             row_bytes(out, row, column), n);
  });
}

void scale(Compute& compute, ConstView a, float factor, View out) {
  check_float("scale a", a);
  check_view("scale a", a, a.dtype(), a.shape());
  check_view("scale out", out, a.dtype(), a.shape());
  if (Accelerator* device = compute.accelerator()) return device::scale(*device, a, factor, out);
  for_spans(compute, {a, out}, [&](std::int64_t row, std::int64_t column, std::int64_t n) {
    scale_span(a.dtype(), row_bytes(a, row, column), factor, row_bytes(out, row, column), n);
  });
}

void weighted_sum(Compute& compute, const Weighted& a, const Weighted& b, View out) {
  check_view("weighted_sum a", a.values, DType::F32, out.shape());
  check_view("weighted_sum b", b.values, DType::F32, out.shape());
  check_view("weighted_sum out", out, DType::F32, out.shape());
  if (Accelerator* device = compute.accelerator()) return device::weighted_sum(*device, a, b, out);
  const auto at = [](auto view, std::int64_t row, std::int64_t column) {
    return reinterpret_cast<
        std::conditional_t<std::is_same_v<decltype(view), View>, float*, const float*>>(
        row_bytes(view, row, column));
  };
  for_spans(compute, {a.values, b.values, out},
            [&](std::int64_t row, std::int64_t column, std::int64_t n) {
              HWY_DYNAMIC_DISPATCH(weighted_elements)
              (at(a.values, row, column), a.weight, at(b.values, row, column), b.weight,
               at(out, row, column), n);
            });
}

void fill(Compute& compute, float value, View out) {
  check_float("fill out", out);
  check_view("fill out", out, out.dtype(), out.shape());
  if (Accelerator* device = compute.accelerator()) return device::fill(*device, value, out);
  for_spans(compute, {out}, [&](std::int64_t row, std::int64_t column, std::int64_t n) {
    HWY_DYNAMIC_DISPATCH(fill_elements)(out.dtype(), value, row_bytes(out, row, column), n);
  });
}

void copy(Compute& compute, ConstView a, View out) {
  check_float("copy a", a);
  check_float("copy out", out);
  check_view("copy a", a, a.dtype(), a.shape());
  check_view("copy out", out, out.dtype(), a.shape());
  if (Accelerator* device = compute.accelerator()) return device::copy(*device, a, out);
  for_spans(compute, {a, out}, [&](std::int64_t row, std::int64_t column, std::int64_t n) {
    const std::byte* from = row_bytes(a, row, column);
    std::byte* to = row_bytes(out, row, column);
    if (a.dtype() == out.dtype()) {
      std::memmove(to, from, n * size_of(a.dtype()));
    } else if (a.dtype() == DType::F32) {
      HWY_DYNAMIC_DISPATCH(narrow_elements)(from, to, n);
    } else {
      HWY_DYNAMIC_DISPATCH(widen_elements)(from, to, n);
    }
  });
}

}  // namespace cleave::ops
#endif
