#include <webp/decode.h>

#include "cleave/base/check.h"
#include "cleave/data/image/decoders.h"

namespace cleave::data {
namespace {

Image decode_webp(std::span<const std::byte> bytes) {
  const auto* data = reinterpret_cast<const std::uint8_t*>(bytes.data());
  WebPBitstreamFeatures features;
  require(WebPGetFeatures(data, bytes.size(), &features) == VP8_STATUS_OK, "is damaged");
  require(features.has_animation == 0, "is an animation, and only single pictures are read");
  check_image_size(features.width, features.height);
  Image image{features.width, features.height, 3, {}};
  image.pixels.resize(static_cast<std::size_t>(image.bytes()));
  const std::uint8_t* done =
      WebPDecodeRGBInto(data, bytes.size(), image.pixels.data(), image.pixels.size(),
                        static_cast<int>(3 * image.width));
  require(done != nullptr, "is damaged");
  return image;
}

}  // namespace

const ImageFormat webp_format = {"WebP",
                                 [](std::span<const std::byte> bytes) {
                                   return has_bytes(bytes, "RIFF") && has_bytes(bytes, "WEBP", 8);
                                 },
                                 decode_webp};

}  // namespace cleave::data
