// What a checkpoint of a classifier says of its images and classes.

#include <algorithm>
#include <string>
#include <vector>

#include "support/temporary_directory.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cleave/data/image/image_set.h"
#include "cleave/train/config/config.h"
#include "cleave/train/save/model_files.h"

namespace cleave::train {
namespace {

using Json = nlohmann::json;

/// A packed set of two classes, and the files of a model with three that learns from it.
class ImageFilesTest : public ::testing::Test {
 protected:
  void pack(const std::string& fit) const {
    const std::vector<std::byte> pixels(8 * 8 * 3);
    data::ImageSetWriter writer(directory_.path("pets.set"), std::ssize(pixels), 1);
    writer.add(pixels, {.images = std::vector<data::Image>(1), .label = 0, .text = {}});
    data::SetDescription set;
    set.width = set.height = 8;
    set.mean = {0.5, 0.25, 0.125};
    set.deviation = {0.25, 0.5, 0.75};
    set.fit = fit;
    set.filter = "bicubic";
    set.classes = {"cat", "dög"};
    writer.finish(set);
  }

  /// Null if there is none.
  Json file(const std::string& name) const {
    const Config config = parse_config(
        "[model]\nkind = \"vit\"\nlayers = 1\nhidden = 8\nheads = 2\nimage = 8\npatch = 4\n"
        "channels = 3\nclasses = 3\n[data]\npath = \"" +
            directory_.path("pets.set") + "\"\n",
        "run.toml");
    const auto files = model_files(config, "float32", directory_.path());
    const auto found = std::ranges::find(files, name, &ModelFile::name);
    return found == files.end() ? Json() : Json::parse(found->text);
  }

  testing::TemporaryDirectory directory_;
};

TEST_F(ImageFilesTest, NameTheClassesOfTheSet) {
  pack("crop");
  const Json config = file("config.json");
  EXPECT_EQ(config["id2label"], (Json{{"0", "cat"}, {"1", "dög"}, {"2", "LABEL_2"}}));
  EXPECT_EQ(config["label2id"], (Json{{"cat", 0}, {"dög", 1}, {"LABEL_2", 2}}));
}

TEST_F(ImageFilesTest, NameTheClassesOfTheConfigJsonThatIsExported) {
  pack("crop");
  directory_.write("config.json", R"({"id2label": {"0": "a", "1": "b", "2": "c"}})");
  EXPECT_EQ(file("config.json")["id2label"], (Json{{"0", "a"}, {"1", "b"}, {"2", "c"}}));
}

TEST_F(ImageFilesTest, SayHowImagesThatWereCroppedAreMadeReady) {
  pack("crop");
  const Json made = file("preprocessor_config.json");
  EXPECT_EQ(made["size"], (Json{{"shortest_edge", 8}}));
  EXPECT_EQ(made["crop_size"], (Json{{"height", 8}, {"width", 8}}));
  EXPECT_EQ(made["do_center_crop"], true);
  EXPECT_EQ(made["resample"], 3);
  EXPECT_EQ(made["image_mean"], (std::vector<double>{0.5, 0.25, 0.125}));
  EXPECT_EQ(made["image_std"], (std::vector<double>{0.25, 0.5, 0.75}));
}

TEST_F(ImageFilesTest, SayHowImagesThatWereStretchedAreMadeReady) {
  pack("stretch");
  const Json made = file("preprocessor_config.json");
  EXPECT_EQ(made["size"], (Json{{"height", 8}, {"width", 8}}));
  EXPECT_FALSE(made.contains("do_center_crop"));
}

TEST_F(ImageFilesTest, LeaveTheGivenPreparationAlone) {
  pack("crop");
  const Json given = {{"size", 8}};
  directory_.write("preprocessor_config.json", given.dump());
  EXPECT_EQ(file("preprocessor_config.json"), given);
}

TEST_F(ImageFilesTest, DoWithoutASetThatIsGone) {
  EXPECT_EQ(file("config.json")["id2label"]["0"], "LABEL_0");
  EXPECT_TRUE(file("preprocessor_config.json").is_null());
}

}  // namespace
}  // namespace cleave::train
