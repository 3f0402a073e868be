// Texts with images, as models read them.

#include "cleave/data/image/image_texts.h"

#include "support/paths.h"
#include "support/temporary_directory.h"
#include <gtest/gtest.h>

#include "cleave/base/check.h"
#include "cleave/base/file.h"
#include "cleave/data/dataset.h"
#include "cleave/data/image/pack.h"

namespace cleave::data {
namespace {

using testing::source_path;
using testing::TemporaryDirectory;

constexpr std::int64_t kTextSequence = 24;
constexpr std::int32_t kImageId = 7;

/// Samples of one, no and two images, packed as 4 x 4 with patches of 2: four rows for an image.
std::string packed_talk(const TemporaryDirectory& dir) {
  for (const char* name : {"colour.jpg", "grey.png"})
    dir.write(name, read_text(source_path(std::string("tests/golden/image/") + name)));
  const std::string list = dir.write(
      "talk.jsonl",
      R"({"image": "colour.jpg", "conversations": [{"from": "human", "value": "<image>\nA?"}, {"from": "gpt", "value": "b"}]}
{"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "ho"}, {"from": "human", "value": "1"}, {"from": "gpt", "value": "2"}]}
{"image": ["grey.png", "colour.jpg"], "conversations": [{"from": "human", "value": "<image>x<image>"}, {"from": "gpt", "value": "y"}]}
)");
  const PackOptions options{.shape = {.width = 4,
                                      .height = 4,
                                      .channels = 3,
                                      .capacity = 2,
                                      .mean = {0.5, 0.5, 0.5},
                                      .deviation = {0.5, 0.5, 0.5}},
                            .filter = &find_resize_filter("bilinear"),
                            .input = list};
  pack_samples(*open_source(list, {}), dir.path("talk.set"), options,
               {.on_done = [](std::int64_t) {}, .on_bad = [](const std::string&) {}});
  return dir.path("talk.set");
}

Query talk_query(const std::string& path) {
  Query query;
  query.config.path = {{path}};
  query.config.validation = 0.0;
  query.config.images = 2;
  query.images = {.side = 4, .patch = 2, .channels = 3, .rows = 4, .token = kImageId};
  query.vocabulary = 256;
  query.sequence = kTextSequence;
  query.batch = 3;
  return query;
}

std::vector<std::int32_t> input_of(const Data& data, std::int64_t sample, std::string_view input,
                                   std::int64_t images = 0) {
  std::vector<std::int32_t> ids(kTextSequence);
  data.training().read(sample, input, {.ids = ids, .images = images});
  return ids;
}

TEST(ImageTexts, GiveImagesTheirPlacesAmongTheTokens) {
  const TemporaryDirectory dir;
  const Data data(talk_query(packed_talk(dir)));

  // "<image>xy" of the last sample: rows of two images, a byte between, then the answer.
  std::vector<std::int32_t> tokens(kTextSequence, 0);
  std::vector<std::int32_t> places(kTextSequence, ImageTexts::kNoPlace);
  std::vector<std::int32_t> targets(kTextSequence, kNoTarget);
  for (int row = 0; row < 4; ++row) {
    tokens[row] = tokens[5 + row] = kImageId;
    places[row] = row;
    places[5 + row] = 4 + row;
  }
  tokens[4] = 'x';
  tokens[9] = '\n';
  tokens[10] = targets[9] = 'y';
  targets[10] = '\n';
  EXPECT_EQ(input_of(data, 2, "tokens"), tokens);
  EXPECT_EQ(input_of(data, 2, "places"), places);
  EXPECT_EQ(input_of(data, 2, "targets"), targets);
  EXPECT_EQ(data.training().images(2), 2);
  EXPECT_EQ(input_of(data, 2, "places", 3)[5], 3 * 4 + 4);
}

TEST(ImageTexts, LearnWhatTheAssistantSays) {
  const TemporaryDirectory dir;
  const Data data(talk_query(packed_talk(dir)));

  std::string learned;
  for (const std::int32_t target : input_of(data, 1, "targets"))
    if (target != kNoTarget) learned += static_cast<char>(target);
  EXPECT_EQ(learned, "ho\n2\n");
  EXPECT_EQ(data.training().targets(1), 2);
  EXPECT_EQ(data.training().targets(3), 2 + 5 + 2);
  EXPECT_EQ(data.training().images(1), 0);
}

TEST(ImageTexts, HaveTheImagesOneAfterAnother) {
  const TemporaryDirectory dir;
  const Data data(talk_query(packed_talk(dir)));
  std::vector<std::uint8_t> room(static_cast<std::size_t>(data.training().room()));
  ASSERT_EQ(room.size(), 48u);
  std::vector<float> one(48);
  std::vector<float> two(96);

  data.training().read(0, "patches", {.values = one, .room = room});
  data.training().read(2, "patches", {.values = two, .room = room});

  EXPECT_EQ(std::vector<float>(two.begin() + 48, two.end()), one);
  EXPECT_NE(std::vector<float>(two.begin(), two.begin() + 48), one);
}

TEST(ImageTexts, SayWhatDoesNotFit) {
  const TemporaryDirectory dir;
  const std::string path = packed_talk(dir);
  const auto complaint = [&](auto change) -> std::string {
    Query query = talk_query(path);
    change(query);
    try {
      const Data data(query);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };

  EXPECT_EQ(complaint([](Query& query) { query.config.images = 1; }),
            "sample 2 of " + path + " has 2 images, and data.images is 1; raise it to 2");
  EXPECT_EQ(complaint([](Query& query) { query.sequence = 10; }),
            "sample 2 of " + path +
                " has 11 tokens, with those of its images, and train.sequence is 10; raise it, or "
                "leave the sample out");
  EXPECT_EQ(complaint([](Query& query) { query.vocabulary = 100; }),
            "sample 1 of " + path + " has the token 105, and model.vocab is 100; raise it");
}

/// Two images with captions, as a CSV has them.
std::string packed_pairs(const TemporaryDirectory& dir) {
  for (const char* name : {"colour.jpg", "grey.png"})
    dir.write(name, read_text(source_path(std::string("tests/golden/image/") + name)));
  const std::string list = dir.write("pairs.csv", "path,caption\ncolour.jpg,ab\ngrey.png,cde\n");
  const PackOptions options{.shape = {.width = 4,
                                      .height = 4,
                                      .channels = 3,
                                      .mean = {0.5, 0.5, 0.5},
                                      .deviation = {0.5, 0.5, 0.5}},
                            .filter = &find_resize_filter("bilinear"),
                            .input = list};
  pack_samples(*open_source(list, {}), dir.path("pairs.set"), options,
               {.on_done = [](std::int64_t) {}, .on_bad = [](const std::string&) {}});
  return dir.path("pairs.set");
}

TEST(ImagePairs, AreAnImageAndATextThatEndsWhereItsEndTokenIs) {
  const TemporaryDirectory dir;
  Query query = talk_query(packed_pairs(dir));
  query.images.pairs = true;
  query.sequence = 5;
  query.batch = 2;
  const Data data(query);
  std::vector<std::int32_t> tokens(5);
  std::vector<std::int32_t> end(1);

  data.training().read(1, "tokens", {.ids = tokens, .images = 1});
  data.training().read(1, "ends", {.ids = end, .images = 1});

  EXPECT_EQ(tokens, (std::vector<std::int32_t>{'c', 'd', 'e', 0, 0}));
  EXPECT_EQ(end, std::vector<std::int32_t>{5 + 3});  // after the five rows of the sample before
  EXPECT_EQ(data.training().targets(2), 2);
}

TEST(ImagePairs, RefuseTextsThatAreTooLong) {
  const TemporaryDirectory dir;
  Query query = talk_query(packed_pairs(dir));
  query.images.pairs = true;
  query.sequence = 3;
  try {
    const Data data(query);
    FAIL() << "four tokens were taken for three";
  } catch (const UserError& error) {
    EXPECT_EQ(std::string(error.what()),
              "sample 1 of " + query.config.path[0].path +
                  " has 4 tokens, and train.sequence is 3; raise it, or leave the sample out");
  }
}

}  // namespace
}  // namespace cleave::data
