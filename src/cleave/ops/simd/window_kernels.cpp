#include "cleave/ops/simd/window_kernels.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cleave/ops/simd/window_kernels.cpp"
#include <hwy/foreach_target.h>

#include "cleave/ops/simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cleave::ops::HWY_NAMESPACE {
namespace {

/// Puts back what load() took: unlike store(), it leaves the bits of a NaN alone.
template <class Part>
HWY_INLINE void put(Vec v, float* p, Part part) {
  store(v, p, part);
}

template <class Part>
HWY_INLINE void put(Vec v, BFloat16* p, Part part) {
  const hn::RebindToSigned<F32> i32;
  const hn::RebindToUnsigned<F32> u32;
  const auto upper = hn::ShiftRight<16>(hn::BitCast(u32, v));
  store_halves(hn::DemoteTo(Half(), hn::BitCast(i32, upper)), p, part);
}

/// Where v takes the place of the largest so far: any NaN does.
HWY_INLINE hn::Mask<F32> exceeds(Vec v, Vec best) {
  return hn::Or(hn::Gt(v, best), hn::IsNaN(v));
}

/// Calls visit(k, offset) for the values of a square after the first, row by row: the offset is
/// from its corner, in elements.
template <class Visit>
HWY_INLINE void for_the_rest(const WindowShape& s, const Visit& visit) {
  const std::int64_t size = s.size;
  const std::int64_t across = s.channels;
  const std::int64_t down = s.width * s.channels;
  for (std::int64_t ky = 0; ky < size; ++ky)
    for (std::int64_t kx = ky == 0 ? 1 : 0; kx < size; ++kx)
      visit(ky * size + kx, ky * down + kx * across);
}

/// Calls visit(corner, place) with the first elements of each square in x and of its results.
template <class Visit>
HWY_INLINE void for_squares(const WindowShape& s, const Visit& visit) {
  const std::int64_t rows = s.out_height();
  const std::int64_t columns = s.out_width();
  const std::int64_t across = s.stride * s.channels;
  std::int64_t place = 0;
  for (std::int64_t y = 0; y < rows; ++y)
    for (std::int64_t z = 0; z < columns; ++z, place += s.channels)
      visit(y * s.width * across + z * across, place);
}

void pool(DType dtype, const WindowShape& shape, const std::byte* x, std::byte* y) {
  const WindowShape s = shape;  // which no store can be taken to change
  with_element(dtype, [&](auto element) HWY_ATTR {
    using T = decltype(element);
    const T* in = reinterpret_cast<const T*>(x);
    T* out = reinterpret_cast<T*>(y);
    for_squares(s, [&](std::int64_t corner, std::int64_t place) HWY_ATTR {
      for_vectors(static_cast<std::size_t>(s.channels), [&](std::size_t c, auto part) HWY_ATTR {
        Vec best = load(in + corner + c, part);
        for_the_rest(s, [&](std::int64_t, std::int64_t offset) HWY_ATTR {
          const Vec v = load(in + corner + offset + c, part);
          best = hn::IfThenElse(exceeds(v, best), v, best);
        });
        put(best, out + place + c, part);
      });
    });
  });
}

void pool_backward(DType dtype, const WindowShape& shape, const std::byte* x, const std::byte* dy,
                   std::byte* dx) {
  const WindowShape s = shape;
  with_element(dtype, [&](auto element) HWY_ATTR {
    using T = decltype(element);
    const T* in = reinterpret_cast<const T*>(x);
    const T* from = reinterpret_cast<const T*>(dy);
    T* out = reinterpret_cast<T*>(dx);
    std::fill_n(out, s.values(), T{});  // pixels that no square covers
    for_squares(s, [&](std::int64_t corner, std::int64_t place) HWY_ATTR {
      for_vectors(static_cast<std::size_t>(s.channels), [&](std::size_t c, auto part) HWY_ATTR {
        Vec best = load(in + corner + c, part);
        Vec at = hn::Zero(F32());  // of the best: which value of the square
        for_the_rest(s, [&](std::int64_t k, std::int64_t offset) HWY_ATTR {
          const Vec v = load(in + corner + offset + c, part);
          const auto taken = exceeds(v, best);
          best = hn::IfThenElse(taken, v, best);
          at = hn::IfThenElse(taken, set(static_cast<float>(k)), at);
        });
        const Vec slope = load(from + place + c, part);
        const auto give = [&](std::int64_t k, std::int64_t offset) HWY_ATTR {
          const auto here = hn::Eq(at, set(static_cast<float>(k)));
          put(hn::IfThenElseZero(here, slope), out + corner + offset + c, part);
        };
        give(0, 0);
        for_the_rest(s, give);
      });
    });
  });
}

/// On the bits as integers, where one rule serves both formats: x ≤ 0 is +0, or anything from -inf
/// to -0, and what lies above these as an integer with a sign is a NaN.
template <class Bits>
HWY_INLINE void positive_bits(const std::byte* x, const std::byte* from, std::byte* out,
                              Bits minus_infinity, std::size_t n) {
  const hn::ScalableTag<Bits> d;
  const auto* sign = reinterpret_cast<const Bits*>(x);
  const auto* value = reinterpret_cast<const Bits*>(from);
  auto* to = reinterpret_cast<Bits*>(out);
  const auto most = hn::Set(d, static_cast<Bits>(minus_infinity + 1));
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) {
    const auto bits = hn::LoadU(d, sign + i);
    const auto below = hn::Or(hn::Lt(bits, most), hn::Eq(bits, hn::Zero(d)));
    hn::StoreU(hn::IfThenZeroElse(below, hn::LoadU(d, value + i)), d, to + i);
  }
  for (; i < n; ++i) to[i] = sign[i] <= minus_infinity || sign[i] == 0 ? Bits{0} : value[i];
}

void positive(DType dtype, const std::byte* x, const std::byte* from, std::byte* out,
              std::size_t n) {
  if (dtype == DType::F32) {
    positive_bits(x, from, out, static_cast<std::int32_t>(0xff800000), n);
  } else {
    positive_bits(x, from, out, static_cast<std::int16_t>(0xff80), n);
  }
}

}  // namespace
}  // namespace cleave::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cleave::ops {

HWY_EXPORT(pool);
HWY_EXPORT(pool_backward);
HWY_EXPORT(positive);

void pool_image(DType dtype, const WindowShape& shape, const std::byte* x, std::byte* y) {
  HWY_DYNAMIC_DISPATCH(pool)(dtype, shape, x, y);
}

void pool_image_backward(DType dtype, const WindowShape& shape, const std::byte* x,
                         const std::byte* dy, std::byte* dx) {
  HWY_DYNAMIC_DISPATCH(pool_backward)(dtype, shape, x, dy, dx);
}

void positive_span(DType dtype, const std::byte* x, const std::byte* from, std::byte* out,
                   std::size_t n) {
  HWY_DYNAMIC_DISPATCH(positive)(dtype, x, from, out, n);
}

}  // namespace cleave::ops
#endif
