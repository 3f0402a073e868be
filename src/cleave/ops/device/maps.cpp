#include "cleave/ops/device/maps.h"

#include "cleave/ops/device/run.h"

namespace cleave::ops::device {

void pad(Accelerator& device, const MapShape& map, std::int64_t margin, ConstView x, View y) {
  run_items(device, "pad", x.dtype(), y.elements(), y.elements(), map.height, map.width,
            map.channels, margin, x, stride_of(x), y, stride_of(y));
}

void crop(Accelerator& device, const MapShape& map, std::int64_t margin, ConstView y, View x) {
  run_items(device, "crop", x.dtype(), x.elements(), x.elements(), map.height, map.width,
            map.channels, margin, y, stride_of(y), x, stride_of(x));
}

void upsample(Accelerator& device, const MapShape& map, std::int64_t by, ConstView x, View y) {
  run_items(device, "upsample_maps", x.dtype(), y.elements(), y.elements(), map.height, map.width,
            map.channels, by, x, stride_of(x), y, stride_of(y));
}

void sum_squares(Accelerator& device, const MapShape& map, std::int64_t by, ConstView y, View x) {
  run_items(device, "sum_squares", x.dtype(), x.elements(), x.elements(), map.height, map.width,
            map.channels, by, y, stride_of(y), x, stride_of(x));
}

void mean_pixels(Accelerator& device, ConstView x, View y) {
  run_items(device, "mean_pixels", x.dtype(), y.elements(), y.elements(), x.size(1) / y.size(1),
            y.size(1), x, stride_of(x), y, stride_of(y));
}

void mean_pixels_backward(Accelerator& device, ConstView dy, View dx) {
  run_items(device, "mean_pixels_gradient", dy.dtype(), dx.elements(), dx.elements(),
            dx.size(1) / dy.size(1), dy.size(1), dy, stride_of(dy), dx, stride_of(dx));
}

void group_norm(Accelerator& device, const GroupNormArgs& a) {
  const std::int64_t channels = a.weight.size(0);
  const std::int64_t pixels = a.x.size(1) / channels;
  const std::int64_t count = a.x.size(0) * a.groups;
  run_items(device, "group_statistics", a.x.dtype(), count, count, a.groups, pixels, channels,
            a.eps, a.x, stride_of(a.x), a.mean, stride_of(a.mean), a.rstd, stride_of(a.rstd));
  run_items(device, "group_norm", a.x.dtype(), a.x.elements(), a.x.elements(), a.groups, pixels,
            channels, a.x, stride_of(a.x), a.weight, a.bias, a.mean, stride_of(a.mean), a.rstd,
            stride_of(a.rstd), a.y, stride_of(a.y));
}

void group_norm_backward(Accelerator& device, const GroupNormBackwardArgs& a) {
  const std::int64_t channels = a.weight.size(0);
  const std::int64_t groups = a.mean.size(1);
  const std::int64_t count = a.x.size(0) * groups;
  run_items(device, "group_norm_gradient", a.x.dtype(), count, count, groups,
            a.x.size(1) / channels, channels, a.dy, stride_of(a.dy), a.x, stride_of(a.x), a.weight,
            a.mean, stride_of(a.mean), a.rstd, stride_of(a.rstd), a.dx, stride_of(a.dx));
}

void add_group_norm_gradients(Accelerator& device, const GroupNormSums& a) {
  const std::int64_t channels = a.dweight ? a.dweight.size(0) : a.dbias.size(0);
  run_items(device, "group_norm_sums", a.x.dtype(), channels, channels, a.mean.size(1), a.x.size(0),
            a.x.size(1) / channels, a.dy, stride_of(a.dy), a.x, stride_of(a.x), a.mean,
            stride_of(a.mean), a.rstd, stride_of(a.rstd), a.dweight, a.dbias);
}

}  // namespace cleave::ops::device
