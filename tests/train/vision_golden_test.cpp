// Ten steps of models that read images against the classes of transformers: same weights, same
// images, same optimizer. The numbers are in tests/golden/vision_losses.txt, made by
// scripts/make_vision_golden.py, whose formulas are repeated here.

#include "train/golden_losses.h"
#include "train/golden_run.h"
#include <gtest/gtest.h>

#include "cleave/model/presets.h"

namespace cleave::train {
namespace {

constexpr std::int64_t kSamples = 6;
constexpr std::int64_t kChannels = 3;
constexpr std::int64_t kClasses = 7;

/// Images by formula, cut into patches.
class FormulaImages : public engine::MicrobatchSource {
 public:
  FormulaImages(std::int64_t side, std::int64_t patch) : image_{side, patch, kChannels} {}
  void begin_step(std::int64_t step) { step_ = step; }
  std::int64_t targets() const { return kSamples; }

  void load(int, std::string_view input, View tensor) override {
    std::int64_t i = 0;
    for (std::int64_t b = 0; b < kSamples; ++b) {
      if (input == "labels")
        tensor.as<std::int32_t>()[b] = static_cast<std::int32_t>((3 * b + step_) % kClasses);
      else
        testing::put_image(tensor, i, image_, b, step_);
    }
  }

 private:
  testing::PatchedImage image_;
  std::int64_t step_ = 0;
};

ModelShape vit_shape(GeluForm gelu) {
  return {.kind = &model::vit,
          .layers = 2,
          .hidden = 32,
          .heads = 4,
          .kv_heads = 4,
          .ffn = 96,
          .vocab = kClasses,
          .context = 10,
          .norm_eps = 1e-12,
          .image = 12,
          .patch = 4,
          .channels = kChannels,
          .classes = kClasses,
          .gelu = gelu};
}

ModelShape cnn_shape() {
  ModelShape shape = model::find_preset("cnn-fashion").shape;
  shape.image = 16;
  shape.channels = kChannels;
  shape.classes = kClasses;
  shape.ffn = 24;
  shape.hidden = 20;
  return shape;
}

ModelShape unet_shape() {
  ModelShape shape = model::find_preset("unet-tiny").shape;
  shape.image = 16;
  shape.channels = kChannels;
  shape.classes = kClasses;
  return shape;
}

std::vector<double> image_losses(const ModelShape& shape, DType dtype) {
  return testing::golden_run(model::graph_of(shape, {.sequences = kSamples, .dtype = dtype}),
                             testing::golden_optimizer(1e-2),
                             FormulaImages(shape.image, shape.patch))
      .losses;
}

TEST(VisionGolden, TenStepsGiveTheLossesOfTransformers) {
  const int lines = testing::expect_golden_losses(
      "tests/golden/vision_losses.txt", 2, [](const std::vector<std::string>& words, DType dtype) {
        if (words[0] == "cnn") return image_losses(cnn_shape(), dtype);
        if (words[0] == "unet") return image_losses(unet_shape(), dtype);
        const GeluForm form = words[1] == "quick" ? GeluForm::Quick : GeluForm::Exact;
        return image_losses(vit_shape(form), dtype);
      });
  EXPECT_EQ(lines, 8);
}

}  // namespace
}  // namespace cleave::train
