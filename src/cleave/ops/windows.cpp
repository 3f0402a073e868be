#include "cleave/ops/windows.h"

#include "cleave/base/check.h"
#include "cleave/ops/device/windows.h"
#include "cleave/ops/simd/rows.h"
#include "cleave/ops/simd/window_kernels.h"
#include "cleave/ops/unfolded_rows.h"
#include "cleave/tensor/bf16.h"

namespace cleave::ops {
namespace {

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

/// Calls work(sample) for all samples, some on each thread.
template <class Work>
void for_each_sample(Compute& compute, ConstView x, const Work& work) {
  parallel_for(compute, x.size(0), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t sample = begin; sample < end; ++sample) work(sample);
  });
}

void keep_where_positive(const Compute& compute, ConstView x, ConstView from, View out) {
  for_spans(compute, {x, from, out}, [&](std::int64_t row, std::int64_t column, std::int64_t n) {
    positive_span(x.dtype(), row_bytes(x, row, column), row_bytes(from, row, column),
                  row_bytes(out, row, column), static_cast<std::size_t>(n));
  });
}

}  // namespace

void unfold(Compute& compute, const WindowShape& shape, ConstView x, View columns) {
  check_images(shape, x);
  check_view("columns", columns, x.dtype(),
             {x.size(0) * shape.places(), shape.channels * shape.size * shape.size});
  if (Accelerator* device = compute.accelerator())
    return device::unfold(*device, shape, x, columns);
  for_each_sample(compute, x, [&](std::int64_t sample) {
    unfold_image(x.dtype(), shape, row_bytes(x, sample),
                 row_bytes(columns, sample * shape.places()));
  });
}

void fold(Compute& compute, const WindowShape& shape, ConstView columns, View x) {
  check_images(shape, x);
  check_view("columns", columns, x.dtype(),
             {x.size(0) * shape.places(), shape.channels * shape.size * shape.size});
  if (Accelerator* device = compute.accelerator()) return device::fold(*device, shape, columns, x);
  for_each_sample(compute, x, [&](std::int64_t sample) {
    fold_image(x.dtype(), shape, row_bytes(columns, sample * shape.places()), row_bytes(x, sample));
  });
}

void max_pool(Compute& compute, const WindowShape& shape, ConstView x, View y) {
  check_images(shape, x);
  check_view("pooled", y, x.dtype(), {x.size(0), shape.places() * shape.channels});
  if (Accelerator* device = compute.accelerator()) return device::max_pool(*device, shape, x, y);
  for_each_sample(compute, x, [&](std::int64_t sample) {
    pool_image(x.dtype(), shape, row_bytes(x, sample), row_bytes(y, sample));
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
  for_each_sample(compute, x, [&](std::int64_t sample) {
    pool_image_backward(x.dtype(), shape, row_bytes(x, sample), row_bytes(dy, sample),
                        row_bytes(dx, sample));
  });
}

void relu(Compute& compute, ConstView x, View y) {
  check_float("relu x", x);
  check_view("relu y", y, x.dtype(), x.shape());
  if (Accelerator* device = compute.accelerator()) return device::relu(*device, x, x, y);
  keep_where_positive(compute, x, x, y);
}

void relu_backward(Compute& compute, ConstView x, ConstView dy, View dx) {
  check_float("relu x", x);
  check_view("relu dy", dy, x.dtype(), x.shape());
  check_view("relu dx", dx, x.dtype(), x.shape());
  if (Accelerator* device = compute.accelerator()) return device::relu(*device, x, dy, dx);
  keep_where_positive(compute, x, dy, dx);
}

void to_channels_first(Compute& compute, std::int64_t channels, ConstView x, View y) {
  check_view("channels last", x, x.dtype(), x.shape());
  check_view("channels first", y, x.dtype(), x.shape());
  if (Accelerator* device = compute.accelerator())
    return device::to_channels_first(*device, channels, x, y);
  const std::int64_t pixels = x.size(1) / channels;
  by_element(x.dtype(), [&](auto element) {
    using T = decltype(element);
    for_each_sample(compute, x, [&](std::int64_t sample) {
      const T* in = values<T>(x, sample);
      T* out = values<T>(y, sample);
      for (std::int64_t c = 0; c < channels; ++c)
        for (std::int64_t p = 0; p < pixels; ++p) out[c * pixels + p] = in[p * channels + c];
    });
  });
}

void to_channels_last(Compute& compute, std::int64_t channels, ConstView x, View y) {
  to_channels_first(compute, x.size(1) / channels, x, y);
}

}  // namespace cleave::ops
