// Directories of models that read images, as transformers saved them: the losses of ten steps of
// AdamW, of which the first one says that the arithmetic is the same. expected.txt beside each has
// them, made by scripts/hugging_face_golden --images, whose formulas are repeated here.

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "support/paths.h"
#include <gtest/gtest.h>

#include "cleave/comm/launcher.h"
#include "cleave/engine/compile/compile.h"
#include "cleave/engine/run/device.h"
#include "cleave/model/family.h"
#include "cleave/train/config/model_directory.h"
#include "cleave/train/save/saving.h"
#include "cleave/train/step/run_optimizer.h"

namespace cleave::train {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kPictures = 3;   // samples of a step, each with one
constexpr std::int64_t kTextAfter = 6;  // tokens after the rows of an image, and one before them
constexpr int kPictureSteps = 10;

/// Or the place where scripts/hugging_face_random has put models of its own.
fs::path pictures_directory() {
  const char* given = std::getenv("CLEAVE_HUGGING_FACE_IMAGES");
  return given != nullptr ? given : testing::source_path("tests/golden/hugging_face_images");
}

std::vector<std::string> picture_models() {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(pictures_directory()))
    names.push_back(entry.path().filename());
  std::ranges::sort(names);
  return names;
}

std::vector<double> expected_losses(const fs::path& directory) {
  std::ifstream file(directory / "expected.txt");
  for (std::string line; std::getline(file, line);) {
    std::istringstream text(line);
    std::string word;
    if (!(text >> word) || word != "losses") continue;
    std::vector<double> losses;
    for (double loss; text >> loss;) losses.push_back(loss);
    return losses;
  }
  return {};
}

/// Images, texts and classes by formula, of the sizes that the model has.
class FormulaSamples : public engine::MicrobatchSource {
 public:
  explicit FormulaSamples(const ModelShape& shape) : shape_(shape) {}
  void begin_step(std::int64_t step) { step_ = step; }

  std::int64_t sequence() const {
    return shape_.kind->pairs ? shape_.context : 1 + shape_.image_rows() + kTextAfter;
  }
  /// What the sum of the losses is divided by.
  std::int64_t trained() const {
    const bool words = shape_.kind->reads_tokens && !shape_.kind->pairs;
    return words ? kPictures * (kTextAfter + 1) : kPictures;
  }

  void load(int, std::string_view input, View tensor) override {
    if (input == "patches") return load_images(tensor);
    auto* out = tensor.as<std::int32_t>();
    for (std::int64_t b = 0; b < kPictures; ++b) {
      if (input == "labels") *out++ = static_cast<std::int32_t>((3 * b + step_) % shape_.classes);
      if (input == "ends") *out++ = static_cast<std::int32_t>(b * sequence() + length(b));
      if (input == "labels" || input == "ends") continue;
      for (std::int64_t t = 0; t < sequence(); ++t) *out++ = token_of(input, b, t);
    }
  }

 private:
  bool in_image(std::int64_t t) const { return t >= 1 && t <= shape_.image_rows(); }
  std::int64_t length(std::int64_t b) const { return 3 + (b + step_) % (shape_.context - 3); }

  std::int32_t token_of(std::string_view input, std::int64_t b, std::int64_t t) const {
    if (input == "places")
      return static_cast<std::int32_t>(in_image(t) ? b * shape_.image_rows() + t - 1 : -1);
    if (input == "targets") return t < shape_.image_rows() ? -1 : text_token(b, t + 1);
    return text_token(b, t);
  }

  /// Below all others are the words; the highest token of a pair's text ends it.
  std::int32_t text_token(std::int64_t b, std::int64_t t) const {
    const std::int64_t q = 7 * t + 11 * b + 3 * step_;
    const std::int64_t word = q * q % (shape_.vocab - 1);
    if (shape_.kind->pairs)
      return static_cast<std::int32_t>(t < length(b) ? word : shape_.vocab - 1);
    if (in_image(t)) return static_cast<std::int32_t>(shape_.image_token);
    return static_cast<std::int32_t>(word < shape_.image_token ? word : word + 1);
  }

  void load_images(View tensor) const {
    const std::int64_t patch = shape_.patch;
    const std::int64_t across = shape_.image / patch;
    std::int64_t i = 0;
    for (std::int64_t b = 0; b < kPictures; ++b)
      for (std::int64_t p = 0; p < across * across; ++p)
        for (std::int64_t c = 0; c < shape_.channels; ++c)
          for (std::int64_t k = 0; k < patch * patch; ++k)
            tensor.as<float>()[i++] =
                pixel(b, c, p / across * patch + k / patch, p % across * patch + k % patch);
  }
  float pixel(std::int64_t b, std::int64_t c, std::int64_t y, std::int64_t x) const {
    const std::int64_t q = (c * shape_.image + y) * shape_.image + x + 17 * b + 29 * step_;
    return static_cast<float>(q * q % 251) / 125.0f - 1.0f;
  }

  ModelShape shape_;
  std::int64_t step_ = 0;
};

std::vector<double> picture_losses(const fs::path& directory) {
  const checkpoint::CheckpointReader reader(directory, checkpoint::Load::WeightsOnly);
  const ModelShape shape = config_of(reader).model;
  const TrainConfig train{.steps = kPictureSteps,
                          .schedule = "constant",
                          .lr = 1e-3,
                          .warmup = 0,
                          .betas = {0.9, 0.95},
                          .weight_decay = 0,
                          .clip = 0};
  FormulaSamples source(shape);
  spec::Flow flow{.sequences = kPictures, .step = kPictures};
  if (shape.kind->reads_tokens) flow.sequence = source.sequence();
  if (shape.kind->reads_tokens && !shape.kind->pairs) flow.images = 1;
  const engine::OptimizerKind& adamw = engine::find_optimizer(train.optimizer);
  engine::CompileOptions options{.optimizer = &adamw, .hyper = hyper_of(train, adamw)};
  if (shape.kind->pairs) options.layout.schedule = "auto";
  const engine::CompiledStep step = engine::compile(model::graph_of(shape, flow), options);
  comm::LocalLauncher here;
  engine::Device device(step, 0, 1, here.processes());
  device.initialise(1);
  load(reader, checkpoint_layout(step.model), device);
  RunOptimizer optimizer(train);
  std::vector<double> losses;
  for (int s = 0; s < kPictureSteps; ++s) {
    optimizer.begin_step(s);
    source.begin_step(s);
    const engine::StepInput input{.source = &source,
                                  .optimizer = &optimizer,
                                  .loss_scale = 1.0f / static_cast<float>(source.trained())};
    losses.push_back(device.executor().run(input).loss);
  }
  return losses;
}

class HuggingFacePictures : public ::testing::TestWithParam<std::string> {};

TEST_P(HuggingFacePictures, HaveTheLossesOfTenStepsInTransformers) {
  const fs::path directory = pictures_directory() / GetParam();
  const std::vector<double> theirs = expected_losses(directory);
  ASSERT_EQ(theirs.size(), kPictureSteps);
  const std::vector<double> ours = picture_losses(directory);
  for (int s = 0; s < kPictureSteps; ++s) EXPECT_NEAR(ours[s], theirs[s], 1e-5 * theirs[s]) << s;
}

INSTANTIATE_TEST_SUITE_P(Families, HuggingFacePictures, ::testing::ValuesIn(picture_models()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace cleave::train
