#include "cleave/ops/reference/feature_maps.h"

#include <cmath>

#include "cleave/ops/reference/element.h"

namespace cleave::ops::reference {

void group_norm(const GroupAttributes& groups, ConstView x, ConstView weight, ConstView bias,
                View y) {
  const std::int64_t width = groups.channels / groups.groups;
  const std::int64_t pixels = x.size(1) / groups.channels;
  const auto count = static_cast<double>(pixels * width);
  for (std::int64_t s = 0; s < x.size(0); ++s)
    for (std::int64_t g = 0; g < groups.groups; ++g) {
      const auto at = [&](std::int64_t k) {
        return k / width * groups.channels + g * width + k % width;
      };
      double mean = 0;
      for (std::int64_t k = 0; k < pixels * width; ++k) mean += double{get(x, {s, at(k)})} / count;
      double variance = 0;
      for (std::int64_t k = 0; k < pixels * width; ++k)
        variance += std::pow(double{get(x, {s, at(k)})} - mean, 2) / count;
      for (std::int64_t k = 0; k < pixels * width; ++k) {
        const std::int64_t c = g * width + k % width;
        const double normed =
            (double{get(x, {s, at(k)})} - mean) / std::sqrt(variance + double{groups.epsilon});
        set(y, {s, at(k)}, normed * double{get(weight, {c})} + double{get(bias, {c})});
      }
    }
}

void upsample(const MapShape& map, std::int64_t by, ConstView x, View y) {
  for (std::int64_t s = 0; s < x.size(0); ++s)
    for (std::int64_t row = 0; row < map.height * by; ++row)
      for (std::int64_t column = 0; column < map.width * by; ++column)
        for (std::int64_t c = 0; c < map.channels; ++c)
          set(y, {s, (row * map.width * by + column) * map.channels + c},
              get(x, {s, (row / by * map.width + column / by) * map.channels + c}));
}

void pad(const MapShape& map, std::int64_t margin, ConstView x, View y) {
  const std::int64_t width = map.width + 2 * margin;
  for (std::int64_t s = 0; s < x.size(0); ++s)
    for (std::int64_t row = 0; row < map.height + 2 * margin; ++row)
      for (std::int64_t column = 0; column < width; ++column)
        for (std::int64_t c = 0; c < map.channels; ++c) {
          const std::int64_t from = row - margin;
          const std::int64_t side = column - margin;
          const bool inside = from >= 0 && from < map.height && side >= 0 && side < map.width;
          set(y, {s, (row * width + column) * map.channels + c},
              inside ? double{get(x, {s, (from * map.width + side) * map.channels + c})} : 0.0);
        }
}

}  // namespace cleave::ops::reference
