#include "cleave/ops/feature_maps.h"

#include <algorithm>
#include <cmath>

#include "cleave/base/check.h"
#include "cleave/ops/device/maps.h"
#include "cleave/ops/simd/rows.h"
#include "cleave/tensor/bf16.h"

namespace cleave::ops {
namespace {

float to_number(float value) {
  return value;
}
float to_number(BFloat16 value) {
  return to_float(value);
}
template <class T>
T rounded(double value) {
  if constexpr (std::is_same_v<T, float>)
    return static_cast<float>(value);
  else
    return to_bf16(static_cast<float>(value));
}

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

void check_maps(const MapShape& small, ConstView x, const MapShape& large, ConstView y) {
  check_float("feature maps", x);
  check_view("feature maps", x, x.dtype(), {x.size(0), small.values()});
  check_view("feature maps", y, x.dtype(), {x.size(0), large.values()});
}

MapShape padded(const MapShape& map, std::int64_t margin) {
  return {map.height + 2 * margin, map.width + 2 * margin, map.channels};
}

/// The mean of a group over all pixels, of what `term` says of each element.
template <class Term>
double mean_of_group(std::int64_t pixels, std::int64_t channels, std::int64_t groups,
                     std::int64_t group, const Term& term) {
  const std::int64_t width = channels / groups;
  double sum = 0;
  for (std::int64_t p = 0; p < pixels; ++p)
    for (std::int64_t c = group * width; c < (group + 1) * width; ++c)
      sum += term(p * channels + c, c);
  return sum / static_cast<double>(pixels * width);
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

void group_norm(Compute& compute, const GroupNormArgs& a) {
  const std::int64_t channels = a.weight.size(0);
  const std::int64_t pixels = a.x.size(1) / channels;
  check_maps({1, pixels, channels}, a.x, {1, pixels, channels}, a.y);
  check_view("group mean", a.mean, DType::F32, {a.x.size(0), a.groups});
  check_view("group rstd", a.rstd, DType::F32, {a.x.size(0), a.groups});
  if (Accelerator* device = compute.accelerator()) return device::group_norm(*device, a);
  for_each_map(compute, a.x, [&](auto element, std::int64_t sample) {
    using T = decltype(element);
    const T* x = sample_of<T>(a.x, sample);
    const T* weight = sample_of<T>(a.weight, 0);
    const T* bias = sample_of<T>(a.bias, 0);
    T* y = sample_of<T>(a.y, sample);
    float* means = sample_of<float>(a.mean, sample);
    float* rstds = sample_of<float>(a.rstd, sample);
    const std::int64_t width = channels / a.groups;
    for (std::int64_t g = 0; g < a.groups; ++g) {
      const double mean = mean_of_group(
          pixels, channels, a.groups, g,
          [&](std::int64_t i, std::int64_t) { return static_cast<double>(to_number(x[i])); });
      const double variance =
          mean_of_group(pixels, channels, a.groups, g, [&](std::int64_t i, std::int64_t) {
            const double off = static_cast<double>(to_number(x[i])) - mean;
            return off * off;
          });
      means[g] = static_cast<float>(mean);
      rstds[g] = static_cast<float>(1 / std::sqrt(variance + static_cast<double>(a.eps)));
    }
    for (std::int64_t i = 0; i < pixels * channels; ++i) {
      const std::int64_t c = i % channels;
      const float normed = (to_number(x[i]) - means[c / width]) * rstds[c / width];
      y[i] = rounded<T>(static_cast<double>(normed * to_number(weight[c]) + to_number(bias[c])));
    }
  });
}

void group_norm_backward(Compute& compute, const GroupNormBackwardArgs& a) {
  const std::int64_t channels = a.weight.size(0);
  const std::int64_t groups = a.mean.size(1);
  const std::int64_t pixels = a.x.size(1) / channels;
  check_maps({1, pixels, channels}, a.x, {1, pixels, channels}, a.dy);
  check_view("group norm dx", a.dx, a.x.dtype(), a.x.shape());
  if (Accelerator* device = compute.accelerator()) return device::group_norm_backward(*device, a);
  for_each_map(compute, a.x, [&](auto element, std::int64_t sample) {
    using T = decltype(element);
    const T* x = sample_of<T>(a.x, sample);
    const T* dy = sample_of<T>(a.dy, sample);
    const T* weight = sample_of<T>(a.weight, 0);
    T* dx = sample_of<T>(a.dx, sample);
    const std::int64_t width = channels / groups;
    for (std::int64_t g = 0; g < groups; ++g) {
      const double mean = static_cast<double>(sample_of<float>(a.mean, sample)[g]);
      const double rstd = static_cast<double>(sample_of<float>(a.rstd, sample)[g]);
      const auto normed = [&](std::int64_t i) {
        return (static_cast<double>(to_number(x[i])) - mean) * rstd;
      };
      const auto scaled = [&](std::int64_t i, std::int64_t c) {
        return static_cast<double>(to_number(dy[i])) * static_cast<double>(to_number(weight[c]));
      };
      const double level = mean_of_group(pixels, channels, groups, g, scaled);
      const double along =
          mean_of_group(pixels, channels, groups, g,
                        [&](std::int64_t i, std::int64_t c) { return scaled(i, c) * normed(i); });
      for (std::int64_t p = 0; p < pixels; ++p)
        for (std::int64_t c = g * width; c < (g + 1) * width; ++c) {
          const std::int64_t i = p * channels + c;
          dx[i] = rounded<T>(rstd * (scaled(i, c) - level - normed(i) * along));
        }
    }
  });
}

void add_group_norm_gradients(Compute& compute, const GroupNormSums& a) {
  const std::int64_t channels = a.dweight ? a.dweight.size(0) : a.dbias.size(0);
  const std::int64_t groups = a.mean.size(1);
  const std::int64_t pixels = a.x.size(1) / channels;
  check_maps({1, pixels, channels}, a.x, {1, pixels, channels}, a.dy);
  if (Accelerator* device = compute.accelerator())
    return device::add_group_norm_gradients(*device, a);
  const auto run = [&](auto element) {
    using T = decltype(element);
    // Threads divide the channels: each sum has one order.
    parallel_for(compute, channels, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t c = begin; c < end; ++c) {
        const std::int64_t g = c / (channels / groups);
        double along = 0;
        double level = 0;
        for (std::int64_t sample = 0; sample < a.x.size(0); ++sample) {
          const auto mean = static_cast<double>(sample_of<float>(a.mean, sample)[g]);
          const auto rstd = static_cast<double>(sample_of<float>(a.rstd, sample)[g]);
          for (std::int64_t i = c; i < pixels * channels; i += channels) {
            const auto dy = static_cast<double>(to_number(sample_of<T>(a.dy, sample)[i]));
            const auto x = static_cast<double>(to_number(sample_of<T>(a.x, sample)[i]));
            along += dy * (x - mean) * rstd;
            level += dy;
          }
        }
        if (a.dweight) a.dweight.template as<float>()[c] += static_cast<float>(along);
        if (a.dbias) a.dbias.template as<float>()[c] += static_cast<float>(level);
      }
    });
  };
  if (a.x.dtype() == DType::F32)
    run(float());
  else
    run(BFloat16());
}

}  // namespace cleave::ops
