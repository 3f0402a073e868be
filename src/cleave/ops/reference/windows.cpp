#include "cleave/ops/reference/windows.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "cleave/ops/reference/element.h"

namespace cleave::ops::reference {
namespace {

/// Where value k of the square at `place` is in an image.
std::int64_t index_of(const WindowShape& s, std::int64_t place, std::int64_t channel,
                      std::int64_t k) {
  const std::int64_t row = place / s.out_width() * s.stride + k / s.size;
  const std::int64_t column = place % s.out_width() * s.stride + k % s.size;
  return (row * s.width + column) * s.channels + channel;
}

double pixel(const WindowShape& s, ConstView x, std::int64_t sample, std::int64_t place,
             std::int64_t channel, std::int64_t k) {
  return get(x, {sample, index_of(s, place, channel, k)});
}

/// Calls visit(sample, place, channel) in this order.
template <class Visit>
void for_each_square(const WindowShape& s, ConstView x, const Visit& visit) {
  for (std::int64_t sample = 0; sample < x.size(0); ++sample)
    for (std::int64_t place = 0; place < s.places(); ++place)
      for (std::int64_t c = 0; c < s.channels; ++c) visit(sample, place, c);
}

}  // namespace

void convolution(const WindowShape& s, ConstView x, ConstView w, ConstView bias, View y) {
  const std::int64_t square = s.size * s.size;
  const std::int64_t out = w.size(0);
  for (std::int64_t sample = 0; sample < x.size(0); ++sample)
    for (std::int64_t place = 0; place < s.places(); ++place)
      for (std::int64_t o = 0; o < out; ++o) {
        double sum = get(bias, {o});
        for (std::int64_t c = 0; c < s.channels; ++c)
          for (std::int64_t k = 0; k < square; ++k)
            sum += pixel(s, x, sample, place, c, k) * get(w, {o, c * square + k});
        set(y, {sample, place * out + o}, sum);
      }
}

void unfold(const WindowShape& s, ConstView x, View columns) {
  const std::int64_t square = s.size * s.size;
  for_each_square(s, x, [&](std::int64_t sample, std::int64_t place, std::int64_t c) {
    for (std::int64_t k = 0; k < square; ++k)
      set(columns, {sample * s.places() + place, c * square + k}, pixel(s, x, sample, place, c, k));
  });
}

void fold(const WindowShape& s, ConstView columns, View x) {
  const std::int64_t square = s.size * s.size;
  std::vector<float> sums(static_cast<std::size_t>(x.elements()));
  for_each_square(s, x, [&](std::int64_t sample, std::int64_t place, std::int64_t c) {
    for (std::int64_t k = 0; k < square; ++k)
      sums[static_cast<std::size_t>(sample * s.values() + index_of(s, place, c, k))] +=
          get(columns, {sample * s.places() + place, c * square + k});
  });
  for (std::int64_t i = 0; i < x.elements(); ++i)
    set(x, {i / s.values(), i % s.values()},
        static_cast<double>(sums[static_cast<std::size_t>(i)]));
}

void max_pool(const WindowShape& s, ConstView x, View y) {
  for_each_square(s, x, [&](std::int64_t sample, std::int64_t place, std::int64_t c) {
    double most = -std::numeric_limits<double>::infinity();
    for (std::int64_t k = 0; k < s.size * s.size; ++k)
      most = std::max(most, pixel(s, x, sample, place, c, k));
    set(y, {sample, place * s.channels + c}, most);
  });
}

void max_pool_backward(const WindowShape& s, ConstView x, ConstView dy, View dx) {
  for (std::int64_t i = 0; i < x.elements(); ++i) set(dx, {i / s.values(), i % s.values()}, 0);
  for_each_square(s, x, [&](std::int64_t sample, std::int64_t place, std::int64_t c) {
    std::int64_t best = 0;
    for (std::int64_t k = 1; k < s.size * s.size; ++k) {
      const double value = pixel(s, x, sample, place, c, k);
      if (value > pixel(s, x, sample, place, c, best) || std::isnan(value)) best = k;
    }
    set(dx, {sample, index_of(s, place, c, best)}, get(dy, {sample, place * s.channels + c}));
  });
}

}  // namespace cleave::ops::reference
