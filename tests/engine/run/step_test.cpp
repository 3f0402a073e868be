#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "support/tiny_model.h"
#include <gtest/gtest.h>

#include "cleave/comm/launcher.h"
#include "cleave/engine/compile/compile.h"
#include "cleave/engine/run/device.h"
#include "cleave/train/step/random_source.h"

namespace cleave::engine {
namespace {

using testing::tiny_shape;

/// Microbatches from number `first` on.
class LaterSource : public train::RandomSource {
 public:
  LaterSource(const Graph& model, int first) : RandomSource(3, model), first_(first) {}
  void load(int index, std::string_view input, View tensor) override {
    RandomSource::load(first_ + index, input, tensor);
  }

 private:
  int first_;
};

/// Which microbatches of a step a device computes.
struct Range {
  int first = 0;
  int of = 0;  ///< in the whole step; 0: those of the device
};

/// One device, `microbatches` microbatches, gradients of one step by name.
struct Gradients {
  std::map<std::string, std::vector<float>> by_name;
  StepResult result;
  std::int64_t peak = 0;
  std::int64_t planned = 0;
};

Gradients gradients_of(const Graph& model, const CompileOptions& options, const Range& range = {}) {
  const CompiledStep step = compile(model, options);
  comm::LocalLauncher here;
  Device device(step, 0, options.threads, here.processes());
  device.initialise(7);
  LaterSource source(model, range.first);
  const int microbatches = range.of > 0 ? range.of : options.microbatches;
  const float scale = 1.0f / static_cast<float>(microbatches * loss_count(model));
  Gradients out;
  out.result = device.executor().run({.source = &source, .loss_scale = scale});
  for (const TensorState& tensor : device.tensors()) {
    const float* values = tensor.gradient.as<float>();
    out.by_name[tensor.name] = {values, values + tensor.gradient.elements()};
  }
  out.peak = device.arena().peak();
  out.planned = step.planned_bytes[0];
  return out;
}

class Step : public ::testing::TestWithParam<std::tuple<const model::Family*, DType>> {
 protected:
  Graph model(std::int64_t loss_blocks = 1) const {
    const auto [kind, dtype] = GetParam();
    return model::graph_of(tiny_shape(kind, 3), {.sequences = 2, .sequence = 16, .dtype = dtype},
                           loss_blocks);
  }
};

TEST_P(Step, UsesThePlannedBytesExactly) {
  const Gradients step = gradients_of(model(), {.microbatches = 3});
  EXPECT_EQ(step.peak, step.planned);
}

// B runs W right behind each layer's I in little memory; zb-h1 runs I and W apart, with everything
// kept in between. The numbers must not know the difference.
TEST_P(Step, SplittingTheBackwardChangesNoBit) {
  const Gradients fused = gradients_of(model(), {.microbatches = 3});
  const Gradients split =
      gradients_of(model(), {.layout = {.schedule = "zb-h1"}, .microbatches = 3});
  EXPECT_EQ(fused.by_name, split.by_name);
  EXPECT_EQ(fused.result.loss, split.result.loss);
}

TEST_P(Step, GradientsOfMicrobatchesAddUp) {
  const Gradients whole = gradients_of(model(), {.microbatches = 2});
  const Gradients first = gradients_of(model(), {}, {.first = 0, .of = 2});
  const Gradients second = gradients_of(model(), {}, {.first = 1, .of = 2});

  // A gradient is a sum over 2 x 32 tokens. Another order of it rounds 64 times at most, each time
  // by 2^-24 of what the terms' absolute values add up to; their signs are random, so that this is
  // about sqrt(64) times the sum.
  constexpr float kTolerance = 64 * 8 * 0x1p-24f;
  for (const auto& [name, sum] : whole.by_name) {
    const std::vector<float>& a = first.by_name.at(name);
    const std::vector<float>& b = second.by_name.at(name);
    float largest = 0;
    for (std::size_t i = 0; i < sum.size(); ++i)
      largest = std::max(largest, std::abs(a[i]) + std::abs(b[i]));
    ASSERT_GT(largest, 0) << name;
    for (std::size_t i = 0; i < sum.size(); ++i)
      ASSERT_NEAR(sum[i], a[i] + b[i], kTolerance * largest) << name << '[' << i << ']';
  }
}

TEST_P(Step, LossOfAnUntrainedModelIsThatOfAGuess) {
  const Gradients step = gradients_of(model(), {.microbatches = 2});
  EXPECT_NEAR(step.result.loss, std::log(61.0), 0.1);
  EXPECT_GT(step.result.gradient_norm, 0);
}

INSTANTIATE_TEST_SUITE_P(Models, Step,
                         ::testing::Combine(::testing::Values(&model::gpt, &model::llama),
                                            ::testing::Values(DType::F32, DType::BF16)));

double loss_sum(Device& device, MicrobatchSource& source) {
  MicrobatchSums sums;
  device.executor().evaluate(source, {&sums, 1});
  return sums.loss;
}

/// d(loss)/d(weight) by central differences at h and h/2, extrapolated: the error is of order h⁴,
/// so what is left is rounding, eps · loss / h ≈ 6e-8 · 4 / 5e-3 ≈ 5e-5.
double slope(Device& device, MicrobatchSource& source, float& weight) {
  const auto central = [&](float h) {
    const float before = weight;
    weight = before + h;
    const double above = loss_sum(device, source);
    weight = before - h;
    const double below = loss_sum(device, source);
    weight = before;
    return (above - below) / (2 * static_cast<double>(h));
  };
  const double coarse = central(1e-2f);
  const double fine = central(5e-3f);
  return (4 * fine - coarse) / 3;
}

TEST(StepGradient, AgreesWithFiniteDifferences) {
  for (const model::Family* kind : {&model::gpt, &model::llama}) {
    const Graph model =
        model::graph_of(tiny_shape(kind, 3), {.sequences = 2, .sequence = 16, .dtype = DType::F32});
    const CompiledStep step = compile(model, {});
    comm::LocalLauncher here;
    Device device(step, 0, 1, here.processes());
    device.initialise(7);
    train::RandomSource source(3, 61);
    const float scale = 1.0f / static_cast<float>(loss_count(model));
    device.executor().run({.source = &source, .loss_scale = scale});

    for (const TensorState& tensor : device.tensors()) {
      const std::int64_t count = tensor.master.elements();
      for (std::int64_t i : {std::int64_t{0}, count / 2, count - 1}) {
        const float gradient = tensor.gradient.as<float>()[i];
        const double expected =
            slope(device, source, tensor.master.as<float>()[i]) * static_cast<double>(scale);
        EXPECT_NEAR(gradient, expected, 1e-4) << tensor.name << "[" << i << "]";
      }
    }
  }
}

TEST(StepLoss, VocabularyBlocksGiveTheSameGradients) {
  const spec::Flow flow{.sequences = 2, .sequence = 16, .dtype = DType::F32};
  const Gradients whole = gradients_of(model::graph_of(tiny_shape(&model::gpt, 3), flow, 1), {});
  const Gradients blocks = gradients_of(model::graph_of(tiny_shape(&model::gpt, 3), flow, 3), {});
  EXPECT_NEAR(whole.result.loss, blocks.result.loss, 1e-6);
  for (const auto& [name, gradient] : whole.by_name) {
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      ASSERT_NEAR(gradient[i], blocks.by_name.at(name)[i], 1e-6) << name << "[" << i << "]";
    }
  }
  EXPECT_LT(blocks.peak, whole.peak);
}

}  // namespace
}  // namespace cleave::engine
