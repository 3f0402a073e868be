#include <csetjmp>
#include <cstring>

#include <png.h>

#include "cleave/base/check.h"
#include "cleave/data/image/decoders.h"

namespace cleave::data {
namespace {

struct PngReader {
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::span<const std::byte> rest;  // of the file
  std::string message;

  ~PngReader() { png_destroy_read_struct(&png, &info, nullptr); }
};

[[noreturn]] void leave_png(png_structp png, png_const_charp message) {
  static_cast<PngReader*>(png_get_error_ptr(png))->message = message;
  png_longjmp(png, 1);
}

void ignore_png_warning(png_structp, png_const_charp) {}

void give_png_bytes(png_structp png, png_bytep to, std::size_t count) {
  auto* reader = static_cast<PngReader*>(png_get_io_ptr(png));
  if (count > reader->rest.size()) png_error(png, "the file ends early");
  std::memcpy(to, reader->rest.data(), count);
  reader->rest = reader->rest.subspan(count);
}

/// Header, and what the pixels are to become: 8 bits, grey or colours, no transparency. False if an
/// error jumped out, so nothing with a destructor lives here.
bool begin_png(PngReader& reader) {
  png_structp png = reader.png;
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  png_set_read_fn(png, &reader, give_png_bytes);
  png_read_info(png, reader.info);
  const int type = png_get_color_type(png, reader.info);
  const int depth = png_get_bit_depth(png, reader.info);
  if (depth == 16) png_set_strip_16(png);
  if (type == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png);
  if (type == PNG_COLOR_TYPE_GRAY && depth < 8) png_set_expand_gray_1_2_4_to_8(png);
  png_set_strip_alpha(png);
  png_set_interlace_handling(png);
  png_read_update_info(png, reader.info);
  return true;
}

bool read_png(const PngReader& reader, png_bytepp rows) {
  if (setjmp(png_jmpbuf(reader.png)) != 0) return false;
  png_read_image(reader.png, rows);
  png_read_end(reader.png, nullptr);
  return true;
}

Image decode_png(std::span<const std::byte> bytes) {
  PngReader reader;
  reader.rest = bytes;
  reader.png =
      png_create_read_struct(PNG_LIBPNG_VER_STRING, &reader, leave_png, ignore_png_warning);
  CLEAVE_CHECK(reader.png != nullptr, "libpng");
  reader.info = png_create_info_struct(reader.png);
  require(begin_png(reader), "is damaged (", reader.message, ")");
  Image image{png_get_image_width(reader.png, reader.info),
              png_get_image_height(reader.png, reader.info),
              png_get_channels(reader.png, reader.info),
              {}};
  check_image_size(image.width, image.height);
  CLEAVE_CHECK(image.channels == 1 || image.channels == 3, image.channels);
  image.pixels.resize(static_cast<std::size_t>(image.bytes()));
  std::vector<png_bytep> rows;
  for (std::int64_t y = 0; y < image.height; ++y)
    rows.push_back(image.pixels.data() + y * image.width * image.channels);
  require(read_png(reader, rows.data()), "is damaged (", reader.message, ")");
  return image;
}

}  // namespace

const ImageFormat png_format = {
    "PNG", [](std::span<const std::byte> bytes) { return has_bytes(bytes, "\x89PNG\r\n\x1a\n"); },
    decode_png};

}  // namespace cleave::data
