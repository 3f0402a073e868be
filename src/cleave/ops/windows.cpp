#include "cleave/ops/windows.h"

#include <algorithm>
#include <cmath>

#include "cleave/base/check.h"
#include "cleave/ops/device/windows.h"
#include "cleave/ops/simd/rows.h"
#include "cleave/tensor/bf16.h"

namespace cleave::ops {
namespace {

float value_of(float value) {
  return value;
}
float value_of(BFloat16 value) {
  return to_float(value);
}
void put(float value, float& out) {
  out = value;
}
void put(float value, BFloat16& out) {
  out = to_bf16(value);
}

/// Calls fn(T()) with the element type.
template <class Fn>
void by_element(DType dtype, const Fn& fn) {
  if (dtype == DType::F32) {
    fn(float());
  } else {
    fn(BFloat16());
  }
}

template <class T>
const T* values(ConstView view, std::int64_t row) {
  return reinterpret_cast<const T*>(row_bytes(view, row));
}
template <class T>
T* values(View view, std::int64_t row) {
  return reinterpret_cast<T*>(row_bytes(view, row));
}

void check_images(const WindowShape& shape, ConstView x) {
  check_float("images", x);
  check_view("images", x, x.dtype(), {x.size(0), shape.values()});
  CLEAVE_CHECK(shape.size <= shape.height && shape.size <= shape.width && shape.stride >= 1,
               shape.size, " of ", shape.height, " x ", shape.width);
}

/// Calls visit(place, y, x) for the upper left corner of each place, row by row.
template <class Visit>
void for_each_place(const WindowShape& shape, const Visit& visit) {
  for (std::int64_t place = 0; place < shape.places(); ++place)
    visit(place, place / shape.out_width() * shape.stride,
          place % shape.out_width() * shape.stride);
}

template <class T>
void unfold_sample(const WindowShape& s, const T* x, T* columns) {
  for_each_place(s, [&](std::int64_t, std::int64_t top, std::int64_t left) {
    for (std::int64_t c = 0; c < s.channels; ++c)
      for (std::int64_t ky = 0; ky < s.size; ++ky)
        for (std::int64_t kx = 0; kx < s.size; ++kx)
          *columns++ = x[((top + ky) * s.width + left + kx) * s.channels + c];
  });
}

/// The places that cover a pixel, first to last: each adds one value.
template <class T>
void fold_sample(const WindowShape& s, const T* columns, T* x) {
  const std::int64_t row = s.channels * s.size * s.size;
  const auto first = [&](std::int64_t at) {
    return std::max<std::int64_t>(0, (at - s.size + s.stride) / s.stride);
  };
  for (std::int64_t y = 0; y < s.height; ++y)
    for (std::int64_t z = 0; z < s.width; ++z)
      for (std::int64_t c = 0; c < s.channels; ++c) {
        float sum = 0;
        for (std::int64_t oy = first(y); oy <= std::min(y / s.stride, s.out_height() - 1); ++oy)
          for (std::int64_t ox = first(z); ox <= std::min(z / s.stride, s.out_width() - 1); ++ox) {
            const std::int64_t ky = y - oy * s.stride;
            const std::int64_t kx = z - ox * s.stride;
            sum += value_of(
                columns[(oy * s.out_width() + ox) * row + (c * s.size + ky) * s.size + kx]);
          }
        put(sum, x[(y * s.width + z) * s.channels + c]);
      }
}

/// Where the first of the largest values of a channel is in the square at (top, left).
template <class T>
std::int64_t largest_at(const WindowShape& s, const T* x, std::int64_t top, std::int64_t left,
                        std::int64_t channel) {
  std::int64_t best = (top * s.width + left) * s.channels + channel;
  for (std::int64_t ky = 0; ky < s.size; ++ky)
    for (std::int64_t kx = 0; kx < s.size; ++kx) {
      const std::int64_t at = ((top + ky) * s.width + left + kx) * s.channels + channel;
      const float value = value_of(x[at]);
      if (value > value_of(x[best]) || std::isnan(value)) best = at;
    }
  return best;
}

/// Calls work(T(), sample) for all samples, some on each thread.
template <class Work>
void for_each_sample(Compute& compute, ConstView x, const Work& work) {
  by_element(x.dtype(), [&](auto element) {
    parallel_for(compute, x.size(0), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t sample = begin; sample < end; ++sample) work(element, sample);
    });
  });
}

}  // namespace

void unfold(Compute& compute, const WindowShape& shape, ConstView x, View columns) {
  check_images(shape, x);
  check_view("columns", columns, x.dtype(),
             {x.size(0) * shape.places(), shape.channels * shape.size * shape.size});
  if (Accelerator* device = compute.accelerator())
    return device::unfold(*device, shape, x, columns);
  for_each_sample(compute, x, [&](auto element, std::int64_t sample) {
    using T = decltype(element);
    unfold_sample(shape, values<T>(x, sample), values<T>(columns, sample * shape.places()));
  });
}

void fold(Compute& compute, const WindowShape& shape, ConstView columns, View x) {
  check_images(shape, x);
  check_view("columns", columns, x.dtype(),
             {x.size(0) * shape.places(), shape.channels * shape.size * shape.size});
  if (Accelerator* device = compute.accelerator()) return device::fold(*device, shape, columns, x);
  for_each_sample(compute, x, [&](auto element, std::int64_t sample) {
    using T = decltype(element);
    fold_sample(shape, values<T>(columns, sample * shape.places()), values<T>(x, sample));
  });
}

void max_pool(Compute& compute, const WindowShape& shape, ConstView x, View y) {
  check_images(shape, x);
  check_view("pooled", y, x.dtype(), {x.size(0), shape.places() * shape.channels});
  if (Accelerator* device = compute.accelerator()) return device::max_pool(*device, shape, x, y);
  for_each_sample(compute, x, [&](auto element, std::int64_t sample) {
    using T = decltype(element);
    const T* in = values<T>(x, sample);
    T* out = values<T>(y, sample);
    for_each_place(shape, [&](std::int64_t place, std::int64_t top, std::int64_t left) {
      for (std::int64_t c = 0; c < shape.channels; ++c)
        out[place * shape.channels + c] = in[largest_at(shape, in, top, left, c)];
    });
  });
}

void max_pool_backward(Compute& compute, const WindowShape& shape, ConstView x, ConstView dy,
                       View dx) {
  check_images(shape, x);
  CLEAVE_CHECK(shape.stride >= shape.size, "squares of ", shape.size, " overlap at ", shape.stride);
  check_view("pooled dy", dy, x.dtype(), {x.size(0), shape.places() * shape.channels});
  check_view("pooled dx", dx, x.dtype(), x.shape());
  if (Accelerator* device = compute.accelerator())
    return device::max_pool_backward(*device, shape, x, dy, dx);
  for_each_sample(compute, x, [&](auto element, std::int64_t sample) {
    using T = decltype(element);
    const T* in = values<T>(x, sample);
    const T* from = values<T>(dy, sample);
    T* out = values<T>(dx, sample);
    std::fill_n(out, shape.values(), T{});
    for_each_place(shape, [&](std::int64_t place, std::int64_t top, std::int64_t left) {
      for (std::int64_t c = 0; c < shape.channels; ++c)
        out[largest_at(shape, in, top, left, c)] = from[place * shape.channels + c];
    });
  });
}

void relu(Compute& compute, ConstView x, View y) {
  check_float("relu x", x);
  check_view("relu y", y, x.dtype(), x.shape());
  if (Accelerator* device = compute.accelerator()) return device::relu(*device, x, x, y);
  for_each_sample(compute, x, [&](auto element, std::int64_t sample) {
    using T = decltype(element);
    const T* in = values<T>(x, sample);
    T* out = values<T>(y, sample);
    for (std::int64_t i = 0; i < x.size(1); ++i) out[i] = value_of(in[i]) <= 0 ? T{} : in[i];
  });
}

void relu_backward(Compute& compute, ConstView x, ConstView dy, View dx) {
  check_float("relu x", x);
  check_view("relu dy", dy, x.dtype(), x.shape());
  check_view("relu dx", dx, x.dtype(), x.shape());
  if (Accelerator* device = compute.accelerator()) return device::relu(*device, x, dy, dx);
  for_each_sample(compute, x, [&](auto element, std::int64_t sample) {
    using T = decltype(element);
    const T* in = values<T>(x, sample);
    const T* from = values<T>(dy, sample);
    T* out = values<T>(dx, sample);
    for (std::int64_t i = 0; i < x.size(1); ++i) out[i] = value_of(in[i]) <= 0 ? T{} : from[i];
  });
}

void to_channels_first(Compute& compute, std::int64_t channels, ConstView x, View y) {
  check_view("channels last", x, x.dtype(), x.shape());
  check_view("channels first", y, x.dtype(), x.shape());
  if (Accelerator* device = compute.accelerator())
    return device::to_channels_first(*device, channels, x, y);
  const std::int64_t pixels = x.size(1) / channels;
  for_each_sample(compute, x, [&](auto element, std::int64_t sample) {
    using T = decltype(element);
    const T* in = values<T>(x, sample);
    T* out = values<T>(y, sample);
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t p = 0; p < pixels; ++p) out[c * pixels + p] = in[p * channels + c];
  });
}

void to_channels_last(Compute& compute, std::int64_t channels, ConstView x, View y) {
  to_channels_first(compute, x.size(1) / channels, x, y);
}

}  // namespace cleave::ops
