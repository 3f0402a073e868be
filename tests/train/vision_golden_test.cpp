// Ten steps of models that read images against the classes of transformers: same weights, same
// images, same optimizer. The numbers are in tests/golden/vision_losses.txt, made by
// scripts/make_vision_golden.py, whose formulas are repeated here.

#include <map>

#include "train/formula_weights.h"
#include "train/golden_losses.h"
#include <gtest/gtest.h>

#include "cleave/comm/launcher.h"
#include "cleave/engine/compile/compile.h"
#include "cleave/model/presets.h"
#include "cleave/tensor/bf16.h"
#include "cleave/train/step/run_optimizer.h"

namespace cleave::train {
namespace {

constexpr std::int64_t kSamples = 6;
constexpr std::int64_t kChannels = 3;
constexpr std::int64_t kClasses = 7;
constexpr int kImageSteps = 10;

/// Images by formula, cut into patches.
class FormulaImages : public engine::MicrobatchSource {
 public:
  FormulaImages(std::int64_t side, std::int64_t patch) : side_(side), patch_(patch) {}
  void begin_step(std::int64_t step) { step_ = step; }
  void load(int, std::string_view input, View tensor) override {
    for (std::int64_t b = 0; b < kSamples; ++b) {
      if (input == "labels")
        tensor.as<std::int32_t>()[b] = static_cast<std::int32_t>((3 * b + step_) % kClasses);
      else
        load_image(b, tensor);
    }
  }

 private:
  float pixel(std::int64_t b, std::int64_t c, std::int64_t y, std::int64_t x) const {
    const std::int64_t q = (c * side_ + y) * side_ + x + 17 * b + 29 * step_;
    return static_cast<float>(q * q % 251) / 125.0f - 1.0f;
  }

  void load_image(std::int64_t b, View tensor) const {
    std::int64_t i = b * kChannels * side_ * side_;
    for (std::int64_t top = 0; top < side_; top += patch_) {
      for (std::int64_t left = 0; left < side_; left += patch_) {
        for (std::int64_t k = 0; k < kChannels * patch_ * patch_; ++k, ++i) {
          const float value =
              pixel(b, k / (patch_ * patch_), top + k / patch_ % patch_, left + k % patch_);
          if (tensor.dtype() == DType::F32)
            tensor.as<float>()[i] = value;
          else
            tensor.as<BFloat16>()[i] = to_bf16(value);
        }
      }
    }
  }

  std::int64_t side_;
  std::int64_t patch_;
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
  const TrainConfig train{.steps = kImageSteps,
                          .lr = 1e-2,
                          .min_lr = 1e-3,
                          .warmup = 2,
                          .betas = {0.9, 0.95},
                          .weight_decay = 0.1,
                          .clip = 1.0};
  const engine::OptimizerKind& adamw = engine::find_optimizer(train.optimizer);
  const engine::CompiledStep step =
      engine::compile(model::graph_of(shape, {.sequences = kSamples, .dtype = dtype}),
                      {.optimizer = &adamw, .hyper = hyper_of(train, adamw)});
  comm::LocalLauncher here;
  engine::Device device(step, 0, 1, here.processes());
  set_formula_weights(device, step.tensor_names);
  device.clear_slots();
  RunOptimizer optimizer(train);
  FormulaImages source(shape.image, shape.patch);
  std::vector<double> losses;
  for (int s = 0; s < kImageSteps; ++s) {
    optimizer.begin_step(s);
    source.begin_step(s);
    const engine::StepInput input{
        .source = &source, .optimizer = &optimizer, .loss_scale = 1.0f / kSamples};
    losses.push_back(device.executor().run(input).loss);
  }
  return losses;
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
