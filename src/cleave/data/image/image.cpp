#include "cleave/data/image/image.h"

#include <cstring>

#include "cleave/base/check.h"
#include "cleave/base/file.h"
#include "cleave/data/image/decoders.h"

namespace cleave::data {
namespace {

const ImageFormat* const kImageFormats[] = {&jpeg_format, &png_format, &webp_format};

// More than any camera gives; a file of a few bytes can claim as much as it likes.
constexpr std::int64_t kMostPixels = std::int64_t{1} << 28;

// Red, green and blue in grey, of 65536 (ITU-R 601).
constexpr std::uint32_t kGreyWeights[] = {19595, 38470, 7471};

}  // namespace

void check_image_size(std::int64_t width, std::int64_t height) {
  require(width > 0 && height > 0 && width <= kMostPixels / height, "has ", width, " x ", height,
          " pixels, and at most ", kMostPixels, " are read");
}

bool has_bytes(std::span<const std::byte> file, std::string_view bytes, std::size_t offset) {
  return file.size() >= offset + bytes.size() &&
         std::memcmp(file.data() + offset, bytes.data(), bytes.size()) == 0;
}

Image decode_image(std::span<const std::byte> bytes, const std::string& name) {
  require(!bytes.empty(), "image ", name, " is empty");
  for (const ImageFormat* format : kImageFormats) {
    if (!format->is(bytes)) continue;
    try {
      return format->decode(bytes);
    } catch (const UserError& error) {
      throw UserError(detail::concat("image ", name, " cannot be used: this ", format->name, " ",
                                     error.what()));
    }
  }
  throw UserError(detail::concat("image ", name, " is neither JPEG nor PNG nor WebP"));
}

Image read_image(const std::string& path) {
  const std::string bytes = read_text(path);
  return decode_image(std::as_bytes(std::span(bytes)), path);
}

Image with_channels(Image image, int channels) {
  if (image.channels == channels) return image;
  Image out{image.width, image.height, channels, {}};
  out.pixels.resize(static_cast<std::size_t>(out.bytes()));
  const std::int64_t pixels = image.width * image.height;
  for (std::int64_t i = 0; i < pixels; ++i) {
    if (channels == 1) {
      const std::uint8_t* in = &image.pixels[static_cast<std::size_t>(3 * i)];
      std::uint32_t grey = 0x8000;
      for (int c = 0; c < 3; ++c) grey += in[c] * kGreyWeights[c];
      out.pixels[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(grey >> 16);
    } else {
      const std::uint8_t grey = image.pixels[static_cast<std::size_t>(i)];
      for (int c = 0; c < 3; ++c) out.pixels[static_cast<std::size_t>(3 * i + c)] = grey;
    }
  }
  return out;
}

}  // namespace cleave::data
