#include <set>

#include "data/packed_images.h"
#include <gtest/gtest.h>

#include "cleave/base/check.h"
#include "cleave/data/dataset.h"
#include "cleave/data/image/patch_reader.h"

namespace cleave::data {
namespace {

using testing::pack;
using testing::small_options;
using testing::TemporaryDirectory;
using testing::write_idx;

/// The set of 300 images of 4 x 4 with the values 7 i + 3 p, and the labels i % 10.
std::string packed_idx(const TemporaryDirectory& dir) {
  PackOptions options = small_options("idx", 1);
  options.shape.width = options.shape.height = 4;
  pack(write_idx(dir, 300), dir.path("a.set"), options);
  return dir.path("a.set");
}

Query image_query(const std::string& path) {
  Query query{.images = {.side = 4, .patch = 2, .channels = 1, .classes = 10}, .batch = 7};
  query.config.path = {{path}};
  query.config.validation = 0.1;
  return query;
}

TEST(ImageData, IsReadInPatches) {
  const TemporaryDirectory dir;
  const Data data(image_query(packed_idx(dir)));
  std::vector<float> values(16);
  std::vector<std::uint8_t> room(static_cast<std::size_t>(data.training().room()));
  std::int32_t label = 0;

  data.training().read(12, "patches", {.values = values, .room = room});
  data.training().read(12, "labels", {.ids = {&label, 1}});

  EXPECT_EQ(label, 2);
  const int order[] = {0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15};
  for (int i = 0; i < 16; ++i)
    EXPECT_EQ(values[i], static_cast<float>(((12 * 7 + 3 * order[i]) % 256 / 255.0 - 0.5) / 0.5));
}

TEST(ImageData, KeepsTheOrderOfBytesInPatchesOfOnePixel) {
  const SetDescription set{
      .width = 2, .height = 2, .channels = 3, .mean = {0, 0.5, 0}, .deviation = {1, 0.25, 2}};
  const std::vector<std::uint8_t> pixels = {1, 2, 3, 40, 50, 60, 7, 8, 9, 200, 255, 0};
  std::vector<float> values(12);

  to_patches(pixels, set, Normaliser(set), 1, values);

  for (std::size_t i = 0; i < 12; ++i)
    EXPECT_EQ(values[i],
              static_cast<float>((pixels[i] / 255.0 - set.mean[i % 3]) / set.deviation[i % 3]));
}

TEST(ImageData, VisitsEveryImageOncePerEpochAndHoldsSomeOut) {
  const TemporaryDirectory dir;
  const Data data(image_query(packed_idx(dir)));
  ASSERT_EQ(data.training().windows(), 270);
  EXPECT_EQ(data.validation()->windows(), 30);

  std::set<std::int64_t> seen;
  for (std::int64_t i = 0; i < 270; ++i) seen.insert(data.training().window(i / 7, i % 7));
  EXPECT_EQ(seen.size(), 270u);
}

TEST(ImageData, SaysWhatDoesNotFitTheModel) {
  const TemporaryDirectory dir;
  const std::string path = packed_idx(dir);
  const auto complaint = [](const Query& query) -> std::string {
    try {
      const Data data(query);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };

  Query query = image_query(path);
  query.images.side = 8;
  EXPECT_EQ(complaint(query), path +
                                  " has images of 4 x 4 x 1, and the model reads 8 x 8 x 1; pack "
                                  "them with --size 8 --channels 1, or set model.image and "
                                  "model.channels");
  query = image_query(path);
  query.images.classes = 5;
  EXPECT_EQ(complaint(query), path + " has labels up to 9, and model.classes is 5; set it to 10");
  query = image_query(dir.write("no.set", std::string(100, 'x')));
  EXPECT_EQ(complaint(query), dir.path("no.set") +
                                  " is no packed set of images (it begins with other bytes); make "
                                  "one with cleave data pack");
}

}  // namespace
}  // namespace cleave::data
