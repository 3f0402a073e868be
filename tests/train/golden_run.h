#pragma once

#include <string>
#include <vector>

#include "train/formula_weights.h"

#include "cleave/comm/launcher.h"
#include "cleave/engine/compile/compile.h"
#include "cleave/engine/run/device.h"
#include "cleave/tensor/bf16.h"
#include "cleave/train/step/run_optimizer.h"

namespace cleave::testing {

// What the golden losses of models that read images have in common: the formulas of
// scripts/make_vision_golden.py, make_vlm_golden.py and make_contrastive_golden.py.

inline constexpr int kGoldenSteps = 10;

/// AdamW as the scripts have it; the rate falls to a tenth.
inline train::TrainConfig golden_optimizer(double rate) {
  return {.steps = kGoldenSteps,
          .lr = rate,
          .min_lr = rate / 10,
          .warmup = 2,
          .betas = {0.9, 0.95},
          .weight_decay = 0.1,
          .clip = 1.0};
}

/// Writes element `i` of a tensor of f32 or bf16.
inline void put(View tensor, std::int64_t i, float value) {
  if (tensor.dtype() == DType::F32)
    tensor.as<float>()[i] = value;
  else
    tensor.as<BFloat16>()[i] = to_bf16(value);
}

/// How images are cut into patches.
struct PatchedImage {
  std::int64_t side = 0;
  std::int64_t patch = 0;
  std::int64_t channels = 3;
};

/// Image `number` of a step by formula, from element `i` of the tensor on.
inline void put_image(View tensor, std::int64_t& i, const PatchedImage& image, std::int64_t number,
                      std::int64_t step) {
  for (std::int64_t top = 0; top < image.side; top += image.patch)
    for (std::int64_t left = 0; left < image.side; left += image.patch)
      for (std::int64_t c = 0; c < image.channels; ++c)
        for (std::int64_t y = top; y < top + image.patch; ++y)
          for (std::int64_t x = left; x < left + image.patch; ++x) {
            const std::int64_t q = (c * image.side + y) * image.side + x + 17 * number + 29 * step;
            put(tensor, i++, static_cast<float>(q * q % 251) / 125.0f - 1.0f);
          }
}

struct GoldenRun {
  std::vector<double> losses;
  std::string weights;
};

/// Ten steps of `model` on one device, from weights by formula. A `Source` has begin_step() and
/// targets(), by which the loss of a step is divided.
template <class Source>
GoldenRun golden_run(const Graph& model, const train::TrainConfig& train, Source&& source) {
  const engine::OptimizerKind& adamw = engine::find_optimizer(train.optimizer);
  const engine::CompiledStep step =
      engine::compile(model, {.optimizer = &adamw, .hyper = hyper_of(train, adamw)});
  comm::LocalLauncher here;
  engine::Device device(step, 0, 1, here.processes());
  train::set_formula_weights(device, step.tensor_names);
  device.clear_slots();
  train::RunOptimizer optimizer(train);
  GoldenRun run;
  for (int s = 0; s < kGoldenSteps; ++s) {
    optimizer.begin_step(s);
    source.begin_step(s);
    const engine::StepInput input{
        .source = &source,
        .optimizer = &optimizer,
        .loss_scale = static_cast<float>(1.0 / static_cast<double>(source.targets()))};
    run.losses.push_back(device.executor().run(input).loss);
  }
  run.weights = engine::combine_hashes(device.weight_hashes());
  return run;
}

}  // namespace cleave::testing
