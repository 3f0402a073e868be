#include "cleave/ops/reference/windows.h"

#include <algorithm>
#include <limits>

#include "cleave/ops/reference/element.h"

namespace cleave::ops::reference {
namespace {

/// The pixel under (ky, kx) of the square at `place`.
double pixel(const WindowShape& s, ConstView x, std::int64_t sample, std::int64_t place,
             std::int64_t channel, std::int64_t k) {
  const std::int64_t row = place / s.out_width() * s.stride + k / s.size;
  const std::int64_t column = place % s.out_width() * s.stride + k % s.size;
  return get(x, {sample, (row * s.width + column) * s.channels + channel});
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

void max_pool(const WindowShape& s, ConstView x, View y) {
  for (std::int64_t sample = 0; sample < x.size(0); ++sample)
    for (std::int64_t place = 0; place < s.places(); ++place)
      for (std::int64_t c = 0; c < s.channels; ++c) {
        double most = -std::numeric_limits<double>::infinity();
        for (std::int64_t k = 0; k < s.size * s.size; ++k)
          most = std::max(most, pixel(s, x, sample, place, c, k));
        set(y, {sample, place * s.channels + c}, most);
      }
}

}  // namespace cleave::ops::reference
