#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "cleave/data/image/image.h"

namespace cleave::data {

/// How a pixel weighs those around it. Each is separable and widens where the image shrinks.
struct ResizeFilter {
  std::string_view name;  ///< as --filter has it
  double support = 1;     ///< pixels to either side
  double (*weight)(double distance);
};

/// Throws UserError that lists the known names.
const ResizeFilter& find_resize_filter(std::string_view name);

/// The part [left, left + width) x [top, top + height) of an image that was resized to
/// `whole_width` x `whole_height`.
struct ResizedPart {
  std::int64_t whole_width = 0;
  std::int64_t whole_height = 0;
  std::int64_t left = 0;
  std::int64_t top = 0;
  std::int64_t width = 0;
  std::int64_t height = 0;
};

/// Bit for bit what resize, then crop, of Pillow up to version 12 give: weights of 22 fractional
/// bits, columns first, then rows, with bytes in between. Only what the part needs is computed.
Image resize(const Image& image, const ResizedPart& part, const ResizeFilter& filter);

/// How an image comes to have a given size.
enum class Fit : std::uint8_t {
  Crop,     ///< the shorter side is resized to fit, and what is too long is cut off at both ends
  Stretch,  ///< both sides are resized
};

/// What of an image of `image_width` x `image_height` is kept for one of `width` x `height`.
ResizedPart fitted(std::int64_t image_width, std::int64_t image_height, std::int64_t width,
                   std::int64_t height, Fit fit);

}  // namespace cleave::data
