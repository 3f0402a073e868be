#include <array>
#include <csetjmp>
#include <cstdio>

#include <jerror.h>
#include <jpeglib.h>

#include "cleave/base/check.h"
#include "cleave/data/image/decoders.h"

namespace cleave::data {
namespace {

/// The library calls back when it is at a loss, and must not be returned to.
struct JpegErrors {
  jpeg_error_mgr base;  // first, so that the library's pointer is ours
  std::jmp_buf back;
  std::array<char, JMSG_LENGTH_MAX> message;
};

[[noreturn]] void leave_jpeg(j_common_ptr info) {
  auto* errors = reinterpret_cast<JpegErrors*>(info->err);
  info->err->format_message(info, errors->message.data());
  std::longjmp(errors->back, 1);
}

/// The library fills a file that ends early with grey; every other warning it may go on after.
void hear_jpeg(j_common_ptr info, int level) {
  if (level < 0 && info->err->msg_code == JWRN_JPEG_EOF) leave_jpeg(info);
}

struct JpegReader {
  jpeg_decompress_struct info = {};
  JpegErrors errors = {};
};

/// Header and scanlines; false if an error jumped out, so nothing with a destructor lives here.
bool begin_jpeg(JpegReader& reader, std::span<const std::byte> bytes) {
  jpeg_decompress_struct& info = reader.info;
  info.err = jpeg_std_error(&reader.errors.base);
  info.err->error_exit = leave_jpeg;
  info.err->emit_message = hear_jpeg;
  if (setjmp(reader.errors.back) != 0) return false;
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  jpeg_read_header(&info, TRUE);
  info.out_color_space = info.num_components == 1   ? JCS_GRAYSCALE
                         : info.num_components == 4 ? JCS_CMYK
                                                    : JCS_RGB;
  info.dct_method = JDCT_ISLOW;
  info.do_fancy_upsampling = TRUE;
  return true;
}

bool read_jpeg(JpegReader& reader, std::uint8_t* pixels) {
  jpeg_decompress_struct& info = reader.info;
  if (setjmp(reader.errors.back) != 0) return false;
  jpeg_start_decompress(&info);
  while (info.output_scanline < info.output_height) {
    JSAMPROW row = pixels + static_cast<std::size_t>(info.output_scanline) * info.output_width *
                                info.out_color_components;
    jpeg_read_scanlines(&info, &row, 1);
  }
  jpeg_finish_decompress(&info);
  return true;
}

/// Rounded a · b / 255.
int times_byte(int a, int b) {
  const int product = a * b + 128;
  return ((product >> 8) + product) >> 8;
}

/// The inks are stored inverted, as Adobe's programs began to do.
Image from_inks(const Image& inks) {
  Image image{inks.width, inks.height, 3, {}};
  image.pixels.resize(static_cast<std::size_t>(image.bytes()));
  for (std::size_t i = 0; i < image.pixels.size() / 3; ++i) {
    const std::uint8_t* ink = &inks.pixels[4 * i];
    const int light = ink[3];  // 255 - black
    for (std::size_t c = 0; c < 3; ++c)
      image.pixels[3 * i + c] = static_cast<std::uint8_t>(light - times_byte(255 - ink[c], light));
  }
  return image;
}

Image decode_jpeg(std::span<const std::byte> bytes) {
  JpegReader reader;
  struct Close {
    JpegReader& reader;
    ~Close() { jpeg_destroy_decompress(&reader.info); }
  } const close{reader};
  require(begin_jpeg(reader, bytes), "is damaged (", reader.errors.message.data(), ")");
  check_image_size(reader.info.image_width, reader.info.image_height);
  Image image{reader.info.image_width,
              reader.info.image_height,
              reader.info.num_components == 2 ? 3 : reader.info.num_components,
              {}};
  image.pixels.resize(static_cast<std::size_t>(image.bytes()));
  require(read_jpeg(reader, image.pixels.data()), "is damaged (", reader.errors.message.data(),
          ")");
  return image.channels == 4 ? from_inks(image) : image;
}

}  // namespace

const ImageFormat jpeg_format = {
    "JPEG", [](std::span<const std::byte> bytes) { return has_bytes(bytes, "\xff\xd8\xff"); },
    decode_jpeg};

}  // namespace cleave::data
