// What the files of samples may say, read without packing them.

#include "cleave/data/image/sample_source.h"

#include <cstdint>
#include <filesystem>
#include <string>

#include "data/packed_images.h"
#include "support/errors.h"
#include "support/temporary_directory.h"
#include <gtest/gtest.h>

namespace cleave::data {
namespace {

using testing::TemporaryDirectory;
using testing::user_error;

std::string big_endian(std::uint32_t number) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(number >> shift & 0xff);
  return bytes;
}

/// An IDX file of that many images of one size, all pixels 0, with labels.
std::string write_images(const TemporaryDirectory& dir, std::uint32_t count, std::uint32_t rows,
                         std::uint32_t columns) {
  dir.write("t-labels-idx1-ubyte",
            std::string("\0\0\x8\x1", 4) + big_endian(count) + std::string(count, '\x7'));
  return dir.write("t-images-idx3-ubyte",
                   std::string("\0\0\x8\x3", 4) + big_endian(count) + big_endian(rows) +
                       big_endian(columns) +
                       std::string(std::size_t{count} * rows * columns, '\0'));
}

TEST(Classes, HaveNamesInUtf8) {
  const TemporaryDirectory dir;
  const std::string csv = dir.write("a.csv", "path,label\nx.png,caf\xe9\n");

  EXPECT_EQ(user_error([&] { testing::pack(csv, dir.path("a.set"), testing::small_options(csv)); }),
            "the class \"caf\\xe9\" has a name that is not UTF-8; rename it");
  EXPECT_FALSE(std::filesystem::exists(dir.path("a.set.partial")));
}

TEST(IdxSource, HasMoreThanAMillionImages) {
  const TemporaryDirectory dir;
  constexpr std::uint32_t kCount = (1 << 20) + 1;

  const auto source = open_source(write_images(dir, kCount, 1, 1), {});

  EXPECT_EQ(source->size(), kCount);
  EXPECT_EQ(source->read(kCount - 1).label, 7);
}

TEST(IdxSource, HasNoImagesWithoutPixels) {
  const TemporaryDirectory dir;
  const std::string path = write_images(dir, 3, 0, 5);
  EXPECT_EQ(user_error([&] { open_source(path, {}); }), path + " has images of 5 x 0 pixels");
}

// To print a value of that depth takes more stack than there is.
TEST(ConversationSource, NestsNoDeeperThanConversations) {
  const TemporaryDirectory dir;
  constexpr std::size_t kDepth = 1'000'000;
  const std::string path = dir.write(
      "a.jsonl", "{\"id\": " + std::string(kDepth, '[') + std::string(kDepth, ']') + "}\n");
  EXPECT_EQ(user_error([&] { open_source(path, {})->read(0); }),
            "line 1 of " + path + " is no JSON in UTF-8");
}

}  // namespace
}  // namespace cleave::data
