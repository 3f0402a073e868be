#include <algorithm>
#include <array>
#include <cmath>

#include "cleave/ops/device/maps.h"
#include "cleave/ops/each_map.h"
#include "cleave/ops/feature_maps.h"

namespace cleave::ops {
namespace {

// Sums of groups are chains of their own, in the order of pixels and channels: several of them go
// on side by side, each as long as if it were alone.
constexpr std::int64_t kGroupsAtOnce = 8;

/// Groups [first, first + count) of channels, `width` in each.
struct ChannelGroups {
  std::int64_t pixels;
  std::int64_t channels;
  std::int64_t width;
  std::int64_t first;
  std::int64_t count;
};

/// Calls fn(groups) for all groups of an image, some at once.
template <class Fn>
void for_groups(std::int64_t pixels, std::int64_t channels, std::int64_t groups, const Fn& fn) {
  for (std::int64_t g = 0; g < groups; g += kGroupsAtOnce)
    fn(ChannelGroups{pixels, channels, channels / groups, g, std::min(kGroupsAtOnce, groups - g)});
}

/// Calls visit(i, c, k) for each element i, of channel c, in the k-th of these groups.
template <class Visit>
void for_elements(const ChannelGroups& groups, const Visit& visit) {
  const auto [pixels, channels, width, first, count] = groups;
  for (std::int64_t p = 0; p < pixels; ++p)
    for (std::int64_t k = 0; k < count; ++k)
      for (std::int64_t c = (first + k) * width; c < (first + k + 1) * width; ++c)
        visit(p * channels + c, c, k);
}

/// [k] The mean of what term(i, c, k) says of the elements of each group.
template <class Term>
std::array<double, kGroupsAtOnce> means_of(const ChannelGroups& groups, const Term& term) {
  std::array<double, kGroupsAtOnce> sums{};
  for_elements(groups, [&](std::int64_t i, std::int64_t c, std::int64_t k) {
    sums[static_cast<std::size_t>(k)] += term(i, c, k);
  });
  for (double& sum : sums) sum /= static_cast<double>(groups.pixels * groups.width);
  return sums;
}

}  // namespace

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
    for_groups(pixels, channels, a.groups, [&](const ChannelGroups& groups) {
      float* mean = means + groups.first;
      float* rstd = rstds + groups.first;
      const auto level = means_of(groups, [&](std::int64_t i, std::int64_t, std::int64_t) {
        return static_cast<double>(to_number(x[i]));
      });
      const auto variance = means_of(groups, [&](std::int64_t i, std::int64_t, std::int64_t k) {
        const double off =
            static_cast<double>(to_number(x[i])) - level[static_cast<std::size_t>(k)];
        return off * off;
      });
      for (std::int64_t k = 0; k < groups.count; ++k) {
        const auto group = static_cast<std::size_t>(k);
        mean[k] = static_cast<float>(level[group]);
        rstd[k] = static_cast<float>(1 / std::sqrt(variance[group] + static_cast<double>(a.eps)));
      }
      for_elements(groups, [&](std::int64_t i, std::int64_t c, std::int64_t k) {
        const float normed = (to_number(x[i]) - mean[k]) * rstd[k];
        y[i] = rounded<T>(static_cast<double>(normed * to_number(weight[c]) + to_number(bias[c])));
      });
    });
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
    for_groups(pixels, channels, groups, [&](const ChannelGroups& some) {
      const float* mean = sample_of<float>(a.mean, sample) + some.first;
      const float* rstd = sample_of<float>(a.rstd, sample) + some.first;
      const auto normed = [&](std::int64_t i, std::int64_t k) {
        return (static_cast<double>(to_number(x[i])) - static_cast<double>(mean[k])) *
               static_cast<double>(rstd[k]);
      };
      const auto scaled = [&](std::int64_t i, std::int64_t c, std::int64_t) {
        return static_cast<double>(to_number(dy[i])) * static_cast<double>(to_number(weight[c]));
      };
      const auto level = means_of(some, scaled);
      const auto along = means_of(some, [&](std::int64_t i, std::int64_t c, std::int64_t k) {
        return scaled(i, c, k) * normed(i, k);
      });
      for_elements(some, [&](std::int64_t i, std::int64_t c, std::int64_t k) {
        const auto group = static_cast<std::size_t>(k);
        dx[i] = rounded<T>(static_cast<double>(rstd[k]) *
                           (scaled(i, c, k) - level[group] - normed(i, k) * along[group]));
      });
    });
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
