#pragma once

#include <cstdint>
#include <type_traits>

#include "cleave/ops/feature_maps.h"
#include "cleave/ops/simd/rows.h"
#include "cleave/tensor/bf16.h"

namespace cleave::ops {

// What loops over feature maps have in common.

inline float to_number(float value) {
  return value;
}
inline float to_number(BFloat16 value) {
  return to_float(value);
}
/// To nearest, from f64 through f32.
template <class T>
T rounded(double value) {
  if constexpr (std::is_same_v<T, float>)
    return static_cast<float>(value);
  else
    return to_bf16(static_cast<float>(value));
}

/// The first element of a sample, or of a vector.
template <class T>
const T* sample_of(ConstView view, std::int64_t sample) {
  return reinterpret_cast<const T*>(row_bytes(view, sample));
}
template <class T>
T* sample_of(View view, std::int64_t sample) {
  return reinterpret_cast<T*>(row_bytes(view, sample));
}

/// Calls work(T(), sample) for all samples, some on each thread.
template <class Work>
void for_each_map(Compute& compute, ConstView x, const Work& work) {
  const auto run = [&](auto element) {
    parallel_for(compute, x.size(0), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t sample = begin; sample < end; ++sample) work(element, sample);
    });
  };
  if (x.dtype() == DType::F32)
    run(float());
  else
    run(BFloat16());
}

/// Throws InternalError unless x and y have one dtype and as many maps, of these shapes.
inline void check_maps(const MapShape& small, ConstView x, const MapShape& large, ConstView y) {
  check_float("feature maps", x);
  check_view("feature maps", x, x.dtype(), {x.size(0), small.values()});
  check_view("feature maps", y, x.dtype(), {x.size(0), large.values()});
}

}  // namespace cleave::ops
