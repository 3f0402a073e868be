#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "cleave/data/image/image.h"

namespace cleave::data {

/// A format of images; each is known to one file, as is the library that reads it.
struct ImageFormat {
  std::string_view name;
  bool (*is)(std::span<const std::byte> bytes);
  /// Throws UserError whose text says what is wrong with the file, without its name.
  Image (*decode)(std::span<const std::byte> bytes);
};

extern const ImageFormat jpeg_format;
extern const ImageFormat png_format;
extern const ImageFormat webp_format;

/// Throws UserError if no image should be that large; before memory is taken for it.
void check_image_size(std::int64_t width, std::int64_t height);

/// Whether the file begins with these bytes, from `offset` on.
bool has_bytes(std::span<const std::byte> file, std::string_view bytes, std::size_t offset = 0);

}  // namespace cleave::data
