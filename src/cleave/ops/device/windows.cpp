#include "cleave/ops/device/windows.h"

#include "cleave/ops/device/run.h"

namespace cleave::ops::device {

void unfold(Accelerator& device, const WindowShape& s, ConstView x, View columns) {
  run_items(device, "unfold", x.dtype(), columns.elements(), columns.elements(), s.channels,
            s.width, s.size, s.stride, s.places(), s.out_width(), x, stride_of(x), columns,
            stride_of(columns));
}

void fold(Accelerator& device, const WindowShape& s, ConstView columns, View x) {
  run_items(device, "fold", x.dtype(), x.elements(), x.elements(), s.channels, s.width, s.values(),
            s.size, s.stride, s.out_height(), s.out_width(), columns, stride_of(columns), x,
            stride_of(x));
}

void max_pool(Accelerator& device, const WindowShape& s, ConstView x, View y) {
  run_items(device, "max_pool", x.dtype(), y.elements(), y.elements(), s.channels, s.width, s.size,
            s.stride, s.places(), s.out_width(), x, stride_of(x), y, stride_of(y));
}

void max_pool_backward(Accelerator& device, const WindowShape& s, ConstView x, ConstView dy,
                       View dx) {
  run_items(device, "max_pool_gradient", x.dtype(), dx.elements(), dx.elements(), s.channels,
            s.width, s.values(), s.size, s.stride, s.out_height(), s.out_width(), x, stride_of(x),
            dy, stride_of(dy), dx, stride_of(dx));
}

void relu(Accelerator& device, ConstView x, ConstView from, View out) {
  const Elements e({x, from, out});
  run_items(device, "relu", x.dtype(), e.count, e.count, e.n, e.inner, x, e.outer(x), e.row(x),
            from, e.outer(from), e.row(from), out, e.outer(out), e.row(out));
}

void to_channels_first(Accelerator& device, std::int64_t channels, ConstView x, View y) {
  run_items(device, "transpose_each", x.dtype(), x.elements(), x.elements(), x.size(1) / channels,
            channels, x, stride_of(x), y, stride_of(y));
}

}  // namespace cleave::ops::device
