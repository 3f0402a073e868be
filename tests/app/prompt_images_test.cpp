// `cleave generate --image` from directories that Hugging Face's tools wrote.

#include <filesystem>
#include <string>
#include <vector>

#include "app/run_cleave.h"
#include "support/paths.h"
#include "support/temporary_directory.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace cleave {
namespace {

using testing::Answer;
using testing::run_cleave;
using testing::source_path;
using testing::TemporaryDirectory;
using json = nlohmann::json;

json clip_processor(int side) {
  return {{"image_processor_type", "CLIPImageProcessor"},
          {"size", {{"shortest_edge", side}}},
          {"do_center_crop", true},
          {"crop_size", {{"height", side}, {"width", side}}},
          {"resample", 3},
          {"rescale_factor", 1.0 / 255},
          {"image_mean", {0.48, 0.46, 0.41}},
          {"image_std", {0.27, 0.26, 0.28}}};
}

class PromptImages : public ::testing::Test {
 protected:
  /// A directory of tests/golden/prompt_images, with what its processor says.
  std::string directory(const std::string& name, const json& processor) {
    const std::string path = dir_.path(name);
    std::filesystem::copy(source_path("tests/golden/prompt_images/" + name), path);
    if (!processor.is_null()) dir_.write(name + "/preprocessor_config.json", processor.dump());
    return path;
  }

  static Answer generate(const std::string& path, const std::string& image) {
    return run_cleave("generate " + path +
                      " --temperature 0 --tokens 8 --past-end --json --image " +
                      source_path("tests/golden/image/" + image) + " --prompt '\"!'");
  }

  static std::vector<int> said(const Answer& answer) {
    EXPECT_EQ(answer.exit, 0) << answer.err;
    if (answer.exit != 0) return {};
    return json::parse(answer.out)["tokens"].get<std::vector<int>>();
  }

  TemporaryDirectory dir_;
};

// The likeliest tokens by transformers 5, of pixels that Pillow 9.5 made ready, each ahead of the
// next by at least 1.8e-3: the image, then the bytes of the prompt and of the end of its line.
TEST_F(PromptImages, AreMadeReadyAsADirectorySays) {
  EXPECT_EQ(said(generate(directory("llava", clip_processor(8)), "colour.png")),
            (std::vector<int>{6, 8, 38, 4, 14, 20, 38, 4}));
  const json tiles = {{"image_processor_type", "SmolVLMImageProcessor"},
                      {"size", {{"longest_edge", 64}}},
                      {"max_image_size", {{"longest_edge", 16}}},
                      {"do_image_splitting", true},
                      {"do_pad", true},
                      {"resample", 1},
                      {"image_mean", {0.48, 0.46, 0.41}},
                      {"image_std", {0.27, 0.26, 0.28}}};
  EXPECT_EQ(said(generate(directory("smolvlm", tiles), "colour.png")),
            (std::vector<int>{7, 23, 30, 29, 29, 29, 29, 29}));
}

TEST_F(PromptImages, AreRefusedByTheKeyThatIsNotDone) {
  const auto complaint = [&](const std::string& key, const json& value) {
    json processor = clip_processor(8);
    processor[key] = value;
    const std::string path = directory("llava", processor);
    const Answer answer = generate(path, "colour.png");
    std::filesystem::remove_all(path);
    EXPECT_EQ(answer.exit, 2);
    return answer.err;
  };
  const std::string file = "cleave: " + dir_.path("llava/preprocessor_config.json") + " has ";
  EXPECT_EQ(
      complaint("resample", 0),
      file + "resample = 0, but known are 1 (lanczos), 2 (bilinear), 3 (bicubic) and 4 (box)\n");
  EXPECT_EQ(complaint("crop_size", 6),
            file + "crop_size = 6, but the model reads images of 8 x 8\n");
  EXPECT_EQ(complaint("rescale_factor", 0.5),
            file + "rescale_factor = 0.5, but bytes always become 0 … 1 here\n");
  EXPECT_EQ(complaint("image_std", json::array({1, 1})),
            file + "image_std = [1,1], but the model's images have 3 channels\n");
  const std::string bare = directory("llava", nullptr);
  EXPECT_EQ(generate(bare, "colour.png").err,
            "cleave: " + bare +
                " says nowhere how images are made ready for its model (preprocessor_config.json "
                "is missing); fetch that file too\n");
}

}  // namespace
}  // namespace cleave
