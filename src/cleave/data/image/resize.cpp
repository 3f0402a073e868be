#include "cleave/data/image/resize.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string_view>
#include <vector>

#include "cleave/base/check.h"
#include "cleave/base/nearest.h"
#include "cleave/data/image/tap_sums.h"

namespace cleave::data {
namespace {

double bilinear_weight(double distance) {
  const double x = std::abs(distance);
  return x < 1 ? 1 - x : 0;
}

/// Keys' cubic with a = -1/2.
double bicubic_weight(double distance) {
  constexpr double kA = -0.5;
  const double x = std::abs(distance);
  if (x < 1) return ((kA + 2) * x - (kA + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * kA;
  return 0;
}

double box_weight(double distance) {
  return distance > -0.5 && distance <= 0.5 ? 1 : 0;
}

double sinc(double x) {
  if (x == 0) return 1;
  return std::sin(x * std::numbers::pi) / (x * std::numbers::pi);
}

double lanczos_weight(double distance) {
  return distance >= -3 && distance < 3 ? sinc(distance) * sinc(distance / 3) : 0;
}

constexpr ResizeFilter kResizeFilters[] = {{"bicubic", 2, bicubic_weight},
                                           {"bilinear", 1, bilinear_weight},
                                           {"box", 0.5, box_weight},
                                           {"lanczos", 3, lanczos_weight}};

/// Pixels [begin, begin + count) of a side that grows or shrinks from `from` to `to` pixels.
Taps taps_of(std::int64_t from, std::int64_t to, std::int64_t begin, std::int64_t count,
             const ResizeFilter& filter) {
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const double widening = std::max(scale, 1.0);
  const double support = filter.support * widening;
  Taps taps;
  taps.stride = static_cast<std::int64_t>(std::ceil(support)) * 2 + 2;
  taps.weights.resize(static_cast<std::size_t>(count * taps.stride));
  std::vector<double> exact(static_cast<std::size_t>(taps.stride));
  for (std::int64_t i = 0; i < count; ++i) {
    const double centre = (static_cast<double>(begin + i) + 0.5) * scale;
    const auto first = static_cast<std::int64_t>(std::max(centre - support + 0.5, 0.0));
    const std::int64_t end = std::min(static_cast<std::int64_t>(centre + support + 0.5), from);
    double sum = 0;
    for (std::int64_t k = 0; k < end - first; ++k) {
      exact[k] = filter.weight((static_cast<double>(k + first) - centre + 0.5) * (1.0 / widening));
      sum += exact[k];
    }
    for (std::int64_t k = 0; k < end - first; ++k) {
      const double weight = (sum == 0 ? exact[k] : exact[k] / sum) * (1 << kFraction);
      taps.weights[i * taps.stride + k] =
          static_cast<std::int32_t>(weight < 0 ? weight - 0.5 : weight + 0.5);
    }
    taps.runs.push_back({first, end - first});
  }
  for (std::size_t i = 0; i < taps.weights.size(); i += 2)
    taps.pairs.push_back(pair_of(taps.weights[i], taps.weights[i + 1]));
  return taps;
}

/// Rows [first, first + rows) with their columns resized; a side that keeps its size is copied.
Image resize_columns(const Image& image, const ResizedPart& part, const ResizeFilter& filter,
                     std::int64_t first, std::int64_t rows) {
  Image out{part.width, rows, image.channels, {}};
  out.pixels.resize(static_cast<std::size_t>(out.bytes()));
  const std::int64_t in_row = image.width * image.channels;
  const std::int64_t out_row = part.width * image.channels;
  if (part.whole_width == image.width) {
    for (std::int64_t y = 0; y < rows; ++y)
      std::copy_n(&image.pixels[(first + y) * in_row + part.left * image.channels], out_row,
                  &out.pixels[y * out_row]);
    return out;
  }
  const Taps taps = taps_of(image.width, part.whole_width, part.left, part.width, filter);
  const auto resize_one = image.channels == 1 ? resize_row<1> : resize_row<3>;
  std::vector<std::uint8_t> padded(static_cast<std::size_t>(in_row + kRowPadding));
  for (std::int64_t y = 0; y < rows; ++y) {
    std::copy_n(&image.pixels[(first + y) * in_row], in_row, padded.data());
    resize_one(padded.data(), taps, &out.pixels[y * out_row]);
  }
  return out;
}

/// `first`: the row of the image that `columns` begins with.
Image resize_rows(const Image& columns, const Taps& taps, std::int64_t first) {
  Image out{columns.width, std::ssize(taps.runs), columns.channels, {}};
  out.pixels.resize(static_cast<std::size_t>(out.bytes()));
  const std::int64_t row = columns.width * columns.channels;
  std::vector<const std::uint8_t*> added;
  for (std::int64_t y = 0; y < out.height; ++y) {
    added.clear();
    for (std::int64_t k = 0; k < taps.runs[y].count; ++k)
      added.push_back(&columns.pixels[(taps.runs[y].first - first + k) * row]);
    std::uint8_t* made = &out.pixels[y * row];
    const std::int64_t begun = add_rows_by_eight(added, taps.pairs_of(y), row, made);
    add_rows(added, taps.of(y), begun, row, made);
  }
  return out;
}

}  // namespace

const ResizeFilter& find_resize_filter(std::string_view name) {
  std::vector<std::string_view> names;
  for (const ResizeFilter& filter : kResizeFilters) {
    if (filter.name == name) return filter;
    names.push_back(filter.name);
  }
  throw UserError(detail::concat("there is no filter \"", name, "\"", known_are(name, names)));
}

Image resize(const Image& image, const ResizedPart& part, const ResizeFilter& filter) {
  if (part.whole_height == image.height)
    return resize_columns(image, part, filter, part.top, part.height);
  const Taps taps = taps_of(image.height, part.whole_height, part.top, part.height, filter);
  const std::int64_t first = taps.runs.front().first;
  const std::int64_t end = taps.runs.back().first + taps.runs.back().count;
  return resize_rows(resize_columns(image, part, filter, first, end - first), taps, first);
}

ResizedPart fitted(std::int64_t image_width, std::int64_t image_height, std::int64_t width,
                   std::int64_t height, Fit fit) {
  CLEAVE_CHECK(image_width > 0 && image_height > 0, image_width, " x ", image_height);
  if (fit == Fit::Stretch) return {width, height, 0, 0, width, height};
  ResizedPart part{.width = width, .height = height};
  // The side that would be too short otherwise is the one that fits.
  if (image_width * height <= image_height * width) {
    part.whole_width = width;
    part.whole_height = image_height * width / image_width;
  } else {
    part.whole_height = height;
    part.whole_width = image_width * height / image_height;
  }
  part.left = (part.whole_width - width) / 2;
  part.top = (part.whole_height - height) / 2;
  return part;
}

}  // namespace cleave::data
