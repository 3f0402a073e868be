// Ten steps of models that read texts with images against the classes of transformers: same
// weights, same samples, same optimizer. The numbers are in tests/golden/vlm_losses.txt, made by
// scripts/make_vlm_golden.py, whose formulas are repeated here.

#include <array>
#include <fstream>
#include <sstream>

#include "support/paths.h"
#include "train/golden_losses.h"
#include "train/golden_run.h"
#include <gtest/gtest.h>

#include "cleave/model/family.h"

namespace cleave::train {
namespace {

constexpr std::int64_t kTextLength = 16;
constexpr std::int64_t kImageRows = 4;  // of an image among the tokens
constexpr std::int64_t kPatchSide = 4;
constexpr std::int64_t kColours = 3;
constexpr std::int32_t kImageId = 60;
constexpr std::array<std::int64_t, 4> kImagesOfSamples = {1, 0, 2, 1};

/// Texts and images by formula; the images follow each other, and padding follows them.
class FormulaTexts : public engine::MicrobatchSource {
 public:
  FormulaTexts(std::int64_t side, float padding)
      : image_{side, kPatchSide, kColours}, padding_(padding) {}
  void begin_step(std::int64_t step) { step_ = step; }

  void load(int, std::string_view input, View tensor) override {
    if (input == "patches") return load_images(tensor);
    auto* out = tensor.as<std::int32_t>();
    std::int64_t images = 0;
    for (std::int64_t b = 0; b < std::ssize(kImagesOfSamples); ++b) {
      for (std::int64_t t = 0; t < kTextLength; ++t) {
        const std::int64_t place = is_image(b, t) ? images * kImageRows + t - 1 : -1;
        *out++ = input == "places"   ? static_cast<std::int32_t>(place)
                 : input == "tokens" ? token(b, t)
                 : learned(b, t + 1) ? token(b, t + 1)
                                     : -1;
      }
      images += kImagesOfSamples[b];
    }
  }

  std::int64_t targets() const {
    std::int64_t count = 0;
    for (std::int64_t b = 0; b < std::ssize(kImagesOfSamples); ++b)
      for (std::int64_t t = 1; t <= kTextLength; ++t) count += learned(b, t) ? 1 : 0;
    return count;
  }

 private:
  static bool is_image(std::int64_t b, std::int64_t t) {
    return t >= 1 && t <= kImageRows * kImagesOfSamples[b];
  }
  static bool learned(std::int64_t b, std::int64_t t) {
    return t > kImageRows * kImagesOfSamples[b] && (t + b) % 3 != 0;
  }
  std::int32_t token(std::int64_t b, std::int64_t t) const {
    const std::int64_t q = 7 * t + 11 * b + 3 * step_;
    return is_image(b, t) ? kImageId : static_cast<std::int32_t>(q * q % 59);
  }

  void load_images(View tensor) const {
    std::int64_t i = 0;
    std::int64_t count = 0;
    for (const std::int64_t images : kImagesOfSamples) count += images;
    for (std::int64_t image = 0; image < count; ++image)
      testing::put_image(tensor, i, image_, image, step_);
    while (i < tensor.elements()) testing::put(tensor, i++, padding_);
  }

  testing::PatchedImage image_;
  float padding_;
  std::int64_t step_ = 0;
};

ModelShape text_shape(const std::string& family) {
  const bool llava = family == "llava";
  return {.kind = &model::vlm,
          .layers = 2,
          .hidden = 32,
          .heads = 4,
          .kv_heads = 2,
          .ffn = 64,
          .vocab = 61,
          .context = kTextLength,
          .tie_embeddings = false,
          .image = llava ? 8 : 16,
          .patch = kPatchSide,
          .channels = kColours,
          .gelu = llava ? GeluForm::Quick : GeluForm::Tanh,
          .vision = {.layers = 3,
                     .hidden = 24,
                     .heads = 4,
                     .ffn = 48,
                     .norm_eps = llava ? 1e-5 : 1e-6,
                     .class_token = llava},
          .shuffle = llava ? 0 : 2,
          .image_token = kImageId};
}

/// With room for two images in each sample, of which `padding` fills what is left.
testing::GoldenRun ten_steps(const ModelShape& shape, DType dtype, float padding) {
  const Graph model = model::graph_of(shape, {.sequences = std::ssize(kImagesOfSamples),
                                              .sequence = kTextLength,
                                              .dtype = dtype,
                                              .images = 2});
  return testing::golden_run(model, testing::golden_optimizer(1e-2),
                             FormulaTexts(shape.image, padding));
}

TEST(VlmGolden, TenStepsGiveTheLossesOfTransformers) {
  const int lines = testing::expect_golden_losses(
      "tests/golden/vlm_losses.txt", 1, [](const std::vector<std::string>& words, DType dtype) {
        return ten_steps(text_shape(words[0]), dtype, 0).losses;
      });
  EXPECT_EQ(lines, 4);
}

ModelShape with_features(ModelShape shape, const std::string& layers) {
  std::istringstream text(layers);
  for (std::string layer; std::getline(text, layer, ',');)
    shape.vision.deepstack.push_back(std::stoll(layer));
  return shape;
}

// Features of several vision layers, of which scripts/make_deepstack_golden.py has the numbers. In
// bf16 they are held against the same, as the others are against PyTorch's bf16.
TEST(VlmGolden, TenStepsWithFeaturesOfSeveralLayersGiveTheLossesOfTheTape) {
  std::ifstream file(testing::source_path("tests/golden/deepstack_losses.txt"));
  int rows = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("#")) continue;
    std::istringstream text(line);
    std::string family;
    std::string layers;
    text >> family >> layers;
    const ModelShape shape = with_features(text_shape(family), layers);
    const testing::GoldenRun f32 = ten_steps(shape, DType::F32, 0);
    const testing::GoldenRun bf16 = ten_steps(shape, DType::BF16, 0);
    for (std::size_t step = 0; step < f32.losses.size(); ++step) {
      double theirs = 0;
      ASSERT_TRUE(text >> theirs) << line;
      EXPECT_NEAR(f32.losses[step], theirs, 1e-5 * theirs) << line;
      EXPECT_NEAR(bf16.losses[step], theirs, 2e-2 * theirs) << line;
    }
    ++rows;
  }
  EXPECT_EQ(rows, 2);
}

TEST(VlmGolden, WhatPaddingHoldsChangesNoBit) {
  for (const ModelShape& shape :
       {text_shape("llava"), text_shape("smolvlm"), with_features(text_shape("llava"), "0,1")}) {
    const testing::GoldenRun zeros = ten_steps(shape, DType::F32, 0);
    const testing::GoldenRun others = ten_steps(shape, DType::F32, 0.75f);
    EXPECT_EQ(zeros.losses, others.losses);
    EXPECT_EQ(zeros.weights, others.weights);
  }
}

}  // namespace
}  // namespace cleave::train
