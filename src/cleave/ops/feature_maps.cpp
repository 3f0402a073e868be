#include "cleave/ops/feature_maps.h"

#include <algorithm>

#include "cleave/ops/device/maps.h"
#include "cleave/ops/each_map.h"

namespace cleave::ops {
namespace {

MapShape padded(const MapShape& map, std::int64_t margin) {
  return {map.height + 2 * margin, map.width + 2 * margin, map.channels};
}

}  // namespace

void pad(Compute& compute, const MapShape& map, std::int64_t margin, ConstView x, View y) {
  const MapShape large = padded(map, margin);
  check_maps(map, x, large, y);
  if (Accelerator* device = compute.accelerator()) return device::pad(*device, map, margin, x, y);
  for_each_map(compute, x, [&](auto element, std::int64_t sample) {
    using T = decltype(element);
    const T* in = sample_of<T>(x, sample);
    T* out = sample_of<T>(y, sample);
    std::fill_n(out, large.values(), T{});
    for (std::int64_t row = 0; row < map.height; ++row)
      std::copy_n(in + row * map.width * map.channels, map.width * map.channels,
                  out + ((row + margin) * large.width + margin) * map.channels);
  });
}

void crop(Compute& compute, const MapShape& map, std::int64_t margin, ConstView y, View x) {
  const MapShape large = padded(map, margin);
  check_maps(map, x, large, y);
  if (Accelerator* device = compute.accelerator()) return device::crop(*device, map, margin, y, x);
  for_each_map(compute, y, [&](auto element, std::int64_t sample) {
    using T = decltype(element);
    const T* in = sample_of<T>(y, sample);
    T* out = sample_of<T>(x, sample);
    for (std::int64_t row = 0; row < map.height; ++row)
      std::copy_n(in + ((row + margin) * large.width + margin) * map.channels,
                  map.width * map.channels, out + row * map.width * map.channels);
  });
}

void upsample(Compute& compute, const MapShape& map, std::int64_t by, ConstView x, View y) {
  const MapShape large{map.height * by, map.width * by, map.channels};
  check_maps(map, x, large, y);
  if (Accelerator* device = compute.accelerator()) return device::upsample(*device, map, by, x, y);
  for_each_map(compute, x, [&](auto element, std::int64_t sample) {
    using T = decltype(element);
    const T* in = sample_of<T>(x, sample);
    T* out = sample_of<T>(y, sample);
    for (std::int64_t p = 0; p < large.pixels(); ++p) {
      const std::int64_t from = p / large.width / by * map.width + p % large.width / by;
      std::copy_n(in + from * map.channels, map.channels, out + p * map.channels);
    }
  });
}

void sum_squares(Compute& compute, const MapShape& map, std::int64_t by, ConstView y, View x) {
  const MapShape large{map.height * by, map.width * by, map.channels};
  check_maps(map, x, large, y);
  if (Accelerator* device = compute.accelerator())
    return device::sum_squares(*device, map, by, y, x);
  for_each_map(compute, y, [&](auto element, std::int64_t sample) {
    using T = decltype(element);
    const T* in = sample_of<T>(y, sample);
    T* out = sample_of<T>(x, sample);
    for (std::int64_t p = 0; p < map.pixels(); ++p)
      for (std::int64_t c = 0; c < map.channels; ++c) {
        const std::int64_t corner = p / map.width * by * large.width + p % map.width * by;
        double sum = 0;
        for (std::int64_t k = 0; k < by * by; ++k)
          sum += static_cast<double>(
              to_number(in[(corner + k / by * large.width + k % by) * map.channels + c]));
        out[p * map.channels + c] = rounded<T>(sum);
      }
  });
}

void mean_pixels(Compute& compute, ConstView x, View y) {
  const std::int64_t channels = y.size(1);
  const std::int64_t pixels = x.size(1) / channels;
  check_maps({1, 1, channels}, y, {1, pixels, channels}, x);
  if (Accelerator* device = compute.accelerator()) return device::mean_pixels(*device, x, y);
  for_each_map(compute, x, [&](auto element, std::int64_t sample) {
    using T = decltype(element);
    const T* in = sample_of<T>(x, sample);
    T* out = sample_of<T>(y, sample);
    for (std::int64_t c = 0; c < channels; ++c) {
      double sum = 0;
      for (std::int64_t p = 0; p < pixels; ++p)
        sum += static_cast<double>(to_number(in[p * channels + c]));
      out[c] = rounded<T>(sum / static_cast<double>(pixels));
    }
  });
}

void mean_pixels_backward(Compute& compute, ConstView dy, View dx) {
  const std::int64_t channels = dy.size(1);
  const std::int64_t pixels = dx.size(1) / channels;
  check_maps({1, 1, channels}, dy, {1, pixels, channels}, dx);
  if (Accelerator* device = compute.accelerator())
    return device::mean_pixels_backward(*device, dy, dx);
  for_each_map(compute, dy, [&](auto element, std::int64_t sample) {
    using T = decltype(element);
    const T* in = sample_of<T>(dy, sample);
    T* out = sample_of<T>(dx, sample);
    for (std::int64_t i = 0; i < pixels * channels; ++i)
      out[i] = rounded<T>(static_cast<double>(to_number(in[i % channels])) /
                          static_cast<double>(pixels));
  });
}

}  // namespace cleave::ops
