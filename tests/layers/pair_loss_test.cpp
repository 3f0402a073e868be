// Losses over all pairs of a step, microbatch by microbatch.

#include <cstring>

#include <gtest/gtest.h>

#include "cleave/base/philox.h"
#include "cleave/layers/layer_kinds.h"
#include "cleave/spec/contrastive_layers.h"
#include "cleave/tensor/arena.h"

namespace cleave {
namespace {

constexpr std::int64_t kSamples = 64;
constexpr std::int64_t kPairFeatures = 24;

struct StepOfPairs {
  std::vector<float> losses;
  std::vector<float> gradients;
};

/// A step of 64 pairs in microbatches of `rows`.
StepOfPairs step_of(const std::string& kind, std::int64_t rows) {
  const spec::PairShape shape{
      .features = kPairFeatures, .samples = kSamples, .scale_name = "scale", .bias_name = "bias"};
  const spec::Flow flow{.sequences = rows};
  const LayerSpec spec = kind == "sigmoid_loss" ? spec::sigmoid_loss("l", flow, shape)
                                                : spec::contrastive_loss("l", flow, shape);
  const std::unique_ptr<Layer> layer = LayerKinds()(spec);
  ops::Compute compute(1);
  Arena arena(1 << 20);
  std::int64_t end = 0;
  const auto take = [&](const TensorSpec& tensor) {
    const View view(arena.at(end), tensor.dtype, tensor.shape);
    end += tensor.bytes();
    return view;
  };
  std::vector<View> collected, constants, kept;
  std::vector<Parameter> parameters;
  for (const TensorSpec& tensor : spec.collected) collected.push_back(take(tensor));
  for (const TensorSpec& tensor : spec.constants) constants.push_back(take(tensor));
  for (const TensorSpec& tensor : spec.kept_by_input) kept.push_back(take(tensor));
  for (const ParameterSpec& parameter : spec.parameters) {
    const TensorSpec one{parameter.name, DType::F32, {1}};
    parameters.push_back({take(one), take(one)});
    parameters.back().value.as<float>()[0] = parameter.init.mean;
  }
  layer->bind(parameters, constants);
  const View y = take(spec.y), dx = take(spec.x);
  compute.set_scratch({arena.at(end), static_cast<std::size_t>(layer->scratch_bytes(compute))});
  const Philox random(1, "pairs", "features");
  for (std::int64_t i = 0; i < collected[0].elements(); ++i)
    collected[0].as<float>()[i] = random.normal(i) * 0.2f;

  StepOfPairs step;
  LayerCall call{.y = y, .dx = dx, .kept_by_input = kept, .loss_scale = 1.0f / kSamples};
  call.collected = collected;
  layer->begin_step(compute, call);
  for (call.first_row = 0; call.first_row < kSamples; call.first_row += rows) {
    call.x = collected[0].slice(0, call.first_row, rows);
    layer->forward(compute, call);
    layer->backward_input(compute, call);
    step.losses.insert(step.losses.end(), y.as<float>(), y.as<float>() + rows);
    step.gradients.insert(step.gradients.end(), dx.as<float>(), dx.as<float>() + dx.elements());
  }
  return step;
}

class PairLossOf : public ::testing::TestWithParam<const char*> {};

TEST_P(PairLossOf, HasTheSameBitsForEveryCutIntoMicrobatches) {
  const StepOfPairs whole = step_of(GetParam(), kSamples);
  for (const std::int64_t rows : {1, 4, 8, 32}) {
    const StepOfPairs cut = step_of(GetParam(), rows);
    ASSERT_EQ(whole.losses.size(), cut.losses.size());
    ASSERT_EQ(whole.gradients.size(), cut.gradients.size());
    EXPECT_EQ(std::memcmp(whole.losses.data(), cut.losses.data(), 4 * whole.losses.size()), 0)
        << rows;
    EXPECT_EQ(std::memcmp(whole.gradients.data(), cut.gradients.data(), 4 * cut.gradients.size()),
              0)
        << rows;
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, PairLossOf, ::testing::Values("contrastive_loss", "sigmoid_loss"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace cleave
