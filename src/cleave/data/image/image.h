#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace cleave::data {

/// Pixels of one byte per channel: row after row, the channels of a pixel side by side.
struct Image {
  std::int64_t width = 0;
  std::int64_t height = 0;
  int channels = 3;  ///< 1: grey, 3: red, green, blue
  std::vector<std::uint8_t> pixels = {};

  std::int64_t bytes() const { return width * height * channels; }
};

/// The pixels of a JPEG, PNG or WebP file, as Pillow decodes it: grey where the file is, otherwise
/// red, green and blue; transparency is dropped. `name` is what messages call it. Throws UserError:
/// another kind of file, damaged or cut off, too large.
Image decode_image(std::span<const std::byte> bytes, const std::string& name);

/// The same file by its path.
Image read_image(const std::string& path);

/// Grey from colours by the weights of ITU-R 601, in integers; colours from grey by repetition.
Image with_channels(Image image, int channels);

}  // namespace cleave::data
