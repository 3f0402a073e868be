#include "cleave/data/image/image.h"

#include <fstream>
#include <sstream>

#include "support/paths.h"
#include <gtest/gtest.h>
#include <zlib.h>

#include "cleave/base/check.h"
#include "cleave/base/file.h"
#include "cleave/data/image/normaliser.h"
#include "cleave/data/image/resize.h"

namespace cleave::data {
namespace {

using testing::source_path;

std::string golden_file(const std::string& name) {
  return source_path("tests/golden/image/" + name);
}

/// "width height sum" of an image.
std::string summary(const Image& image) {
  const auto sum = ::crc32(0, image.pixels.data(), static_cast<unsigned>(image.pixels.size()));
  std::ostringstream text;
  text << image.width << ' ' << image.height << ' ' << std::hex;
  text.width(8);
  text.fill('0');
  text << sum;
  return text.str();
}

/// What cleave makes of a line of cases.txt, up to the result.
std::string result_of(std::istringstream& line, const std::string& file) {
  int channels = 0;
  std::string what;
  line >> channels >> what;
  // Pillow's "L" of a grey file goes by way of colours, and comes to the same.
  const Image image = with_channels(with_channels(read_image(golden_file(file)), 3), channels);
  if (what == "decode") return summary(image);
  std::string fit;
  std::int64_t height = 0;
  std::int64_t width = 0;
  line >> fit >> height >> width;
  const ResizedPart part =
      fitted(image.width, image.height, width, height, fit == "crop" ? Fit::Crop : Fit::Stretch);
  return summary(resize(image, part, find_resize_filter(what)));
}

TEST(Image, IsDecodedAndResizedToThePixelsOfPillow) {
  std::ifstream cases(golden_file("cases.txt"));
  int count = 0;
  for (std::string text; std::getline(cases, text);) {
    if (text.starts_with('#')) continue;
    std::istringstream line(text);
    std::string file;
    line >> file;
    const std::string result = result_of(line, file);
    EXPECT_TRUE(text.ends_with(" " + result)) << text << " became " << result;
    ++count;
  }
  EXPECT_GT(count, 200);
}

std::string complaint_about_image(std::string bytes) {
  try {
    decode_image(std::as_bytes(std::span(bytes)), "a.jpg");
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(Image, SaysWhatIsWrongWithAFile) {
  EXPECT_EQ(complaint_about_image(""), "image a.jpg is empty");
  EXPECT_EQ(complaint_about_image("GIF89a"), "image a.jpg is neither JPEG nor PNG nor WebP");
  const std::string jpeg = read_text(golden_file("colour.jpg"));
  EXPECT_EQ(complaint_about_image(jpeg.substr(0, jpeg.size() / 2)),
            "image a.jpg cannot be used: this JPEG is damaged (Premature end of JPEG file)");
  const std::string png = read_text(golden_file("colour.png"));
  EXPECT_EQ(complaint_about_image(png.substr(0, png.size() / 2)),
            "image a.jpg cannot be used: this PNG is damaged (the file ends early)");
  const std::string webp = read_text(golden_file("lossy.webp"));
  EXPECT_EQ(complaint_about_image(webp.substr(0, webp.size() / 2)),
            "image a.jpg cannot be used: this WebP is damaged");
}

TEST(Image, SurvivesDamageAnywhere) {
  for (const char* name : {"full_colour.jpg", "inks.jpg", "palette.png", "lossless.webp"}) {
    const std::string whole = read_text(golden_file(name));
    for (std::size_t at = 0; at < whole.size(); at += 7) {
      std::string broken = whole;
      broken[at] = static_cast<char>(broken[at] ^ 0x55);
      complaint_about_image(broken);  // an image or a sentence, no more
      complaint_about_image(whole.substr(0, at));
    }
  }
}

TEST(Image, IsCutInTheMiddleOfItsLongerSide) {
  const ResizedPart part = fitted(640, 480, 224, 224, Fit::Crop);

  EXPECT_EQ(part.whole_width, 298);
  EXPECT_EQ(part.whole_height, 224);
  EXPECT_EQ(part.left, 37);
  EXPECT_EQ(part.top, 0);
}

TEST(Normaliser, HasTheNumberOfEachByte) {
  const Normaliser normaliser(
      SetDescription{.channels = 2, .mean = {0.5, 0.25}, .deviation = {0.5, 2}});

  EXPECT_EQ(normaliser.table(0)[0], -1.0f);
  EXPECT_EQ(normaliser.table(0)[255], 1.0f);
  EXPECT_EQ(normaliser.table(1)[51], static_cast<float>((0.2 - 0.25) / 2));
}

}  // namespace
}  // namespace cleave::data
