#include "cleave/ops/rope.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cleave/ops/simd/rope.cpp"
#include <hwy/foreach_target.h>

#include "cleave/base/elementary.h"
#include "cleave/ops/device/elementwise.h"
#include "cleave/ops/simd/rows.h"
#include "cleave/ops/simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cleave::ops::HWY_NAMESPACE {
namespace {

/// One head: (a, b) becomes (a cos - b sin, b cos + a sin), sin times `direction`.
template <class T>
void rotate(T* x, const float* cos, const float* sin, float direction, std::size_t half) {
  for_vectors(half, [=](std::size_t i, auto part) HWY_ATTR {
    const Vec a = load(x + i, part);
    const Vec b = load(x + half + i, part);
    const Vec c = load(cos + i, part);
    const Vec s = hn::Mul(load(sin + i, part), set(direction));
    store(neg_mul_add(b, s, hn::Mul(a, c)), x + i, part);
    store(mul_add(a, s, hn::Mul(b, c)), x + half + i, part);
  });
}

void rotate_head(DType dtype, std::byte* x, const float* cos, const float* sin, float direction,
                 std::size_t half) {
  with_element(dtype, [=](auto element) HWY_ATTR {
    rotate(reinterpret_cast<decltype(element)*>(x), cos, sin, direction, half);
  });
}

}  // namespace
}  // namespace cleave::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cleave::ops {

HWY_EXPORT(rotate_head);

void fill_rope_tables(std::span<const double> frequencies, double magnitude, View cos, View sin) {
  const std::int64_t positions = cos.size(0);
  const std::int64_t pairs = std::ssize(frequencies);
  check_view("rope cos", cos, DType::F32, {positions, pairs});
  check_view("rope sin", sin, DType::F32, {positions, pairs});
  for (std::int64_t i = 0; i < pairs; ++i) {
    for (std::int64_t position = 0; position < positions; ++position) {
      const auto [sine, cosine] = sine_cosine(static_cast<double>(position) * frequencies[i]);
      row_of<float>(cos, position)[i] = static_cast<float>(magnitude * cosine);
      row_of<float>(sin, position)[i] = static_cast<float>(magnitude * sine);
    }
  }
}

void rope(Compute& compute, const RopeArgs& args) {
  const Shape& shape = args.x.shape();
  const std::int64_t positions = args.cos.size(0);
  const std::int64_t half = args.cos.size(1);
  CLEAVE_CHECK(shape.rank() == 3 && 2 * half <= shape[2], half, " pairs of ", to_string(shape));
  check_float("rope x", args.x);
  check_view("rope x", args.x, args.x.dtype(), shape);
  check_view("rope cos", args.cos, DType::F32, {positions, half});
  check_view("rope sin", args.sin, DType::F32, {positions, half});
  CLEAVE_CHECK(args.first_position + std::min(args.sequence, shape[0]) <= positions, "positions ",
               args.first_position, "+", args.sequence, " of ", positions);
  if (Accelerator* device = compute.accelerator()) return device::rope(*device, args);
  const float direction = args.rotation == Rotation::Forward ? 1.0f : -1.0f;
  parallel_for(compute, shape[0], 8, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t token = begin; token < end; ++token) {
      const std::int64_t position = args.first_position + token % args.sequence;
      for (std::int64_t head = 0; head < shape[1]; ++head) {
        HWY_DYNAMIC_DISPATCH(rotate_head)
        (args.x.dtype(), row_bytes(args.x, token * shape[1] + head),
         row_of<float>(args.cos, position), row_of<float>(args.sin, position), direction, half);
      }
    }
  });
}

}  // namespace cleave::ops
#endif
