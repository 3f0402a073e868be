// Every kind of layer against its spec and against calculus: for a random dy, the slope of <dy, y>
// along each x and each weight is what I and W say it is.

#include <cmath>
#include <functional>

#include "layers/layer_cases.h"
#include <gtest/gtest.h>

#include "cleave/base/philox.h"
#include "cleave/layers/layer_kinds.h"
#include "cleave/spec/layers.h"
#include "cleave/tensor/arena.h"

namespace cleave {
namespace {

using testing::kFeatures;
using testing::kFlow;
using testing::kVocabulary;
using testing::layer_cases;
using testing::LayerCase;

/// A layer alone, with exactly the memory that its spec declares.
class Bench {
 public:
  explicit Bench(const LayerSpec& spec) : layer_(LayerKinds()(spec)), compute_(1), arena_(1 << 20) {
    x = take(spec.x, 1);
    y = take(spec.y, 0);
    dy = take(spec.y, 2);
    dx = take(spec.x, 0);
    for (const ReadTensor& read : spec.reads) {
      reads.push_back(take(read.tensor, 3));
      read_gradients.push_back(read.gradient ? take(read.tensor, 0) : View());
    }
    for (const TensorSpec& all : spec.collected) collected_.push_back(take(all, 0));
    for (const KeptTensor& kept : spec.kept_by_forward) by_forward_.push_back(take(kept.tensor, 3));
    for (const TensorSpec& kept : spec.kept_by_input) by_input_.push_back(take(kept, 0));
    for (const ParameterSpec& parameter : spec.parameters) {
      const TensorSpec tensor{parameter.name, DType::F32, parameter.shape};
      parameters.push_back({take(tensor, 4 + parameters.size()), take(tensor, 0)});
    }
    std::vector<View> constants;
    for (const TensorSpec& constant : spec.constants) constants.push_back(take(constant, 0));
    layer_->bind(parameters, constants);
    const std::int64_t scratch = layer_->scratch_bytes(compute_);
    compute_.set_scratch({arena_.at(end_), static_cast<std::size_t>(scratch)});
  }

  LayerCall call() {
    return {.x = x,
            .y = y,
            .reads = reads,
            .dy = dy,
            .dx = dx,
            .read_gradients = read_gradients,
            .kept_by_forward = by_forward_,
            .kept_by_input = by_input_,
            .gradient = Write::Overwrite,
            .loss_scale = 1,
            .collected = collected_};
  }

  /// F, after what goes before it in a step of one microbatch.
  void forward(const LayerCall& pass) {
    if (!collected_.empty()) {
      std::copy(x.bytes(), x.bytes() + x.byte_count(), collected_[0].bytes());
      layer_->begin_step(compute_, pass);
    }
    layer_->forward(compute_, pass);
  }

  /// <dy, y>, or the sum of the losses. F may turn x in place, so it works on a copy.
  double objective() {
    std::vector<std::byte> before(x.bytes(), x.bytes() + x.byte_count());
    forward(call());
    std::copy(before.begin(), before.end(), x.bytes());
    double sum = 0;
    const bool loss = layer_->spec().kind.ends_with("loss");
    const std::int64_t summed = loss ? y.size(y.rank() - 1) : y.elements();  // of hits no slope is
    for (std::int64_t i = 0; i < summed; ++i) {
      sum += static_cast<double>(y.as<float>()[i]) *
             (loss ? 1 : static_cast<double>(dy.as<float>()[i]));
    }
    return sum;
  }

  /// F, I and W of the same x; F may have turned it, so it is put back first.
  void backward(Write gradient = Write::Overwrite) {
    const std::vector<std::byte> before(x.bytes(), x.bytes() + x.byte_count());
    LayerCall pass = call();
    pass.gradient = gradient;
    forward(pass);
    layer_->backward_input(compute_, pass);
    if (!parameters.empty()) layer_->backward_weight(compute_, pass);
    std::copy(before.begin(), before.end(), x.bytes());
  }

  View x, y, dy, dx;
  std::vector<View> reads;
  std::vector<View> read_gradients;  // empty where the layer makes none
  std::vector<Parameter> parameters;

 private:
  View take(const TensorSpec& tensor, std::uint64_t seed) {
    const View view(arena_.at(end_), tensor.dtype, tensor.shape);
    end_ += tensor.bytes();
    const Philox random(seed, "layer test", tensor.name);
    for (std::int64_t i = 0; i < view.elements() && seed > 0; ++i) {
      if (tensor.dtype == DType::I32) {
        view.as<std::int32_t>()[i] = static_cast<std::int32_t>(random.below(kVocabulary, i));
      } else {
        view.as<float>()[i] = random.normal(i);
      }
    }
    return view;
  }

  std::unique_ptr<Layer> layer_;
  ops::Compute compute_;
  Arena arena_;
  std::int64_t end_ = 0;
  std::vector<View> collected_;
  std::vector<View> by_forward_;
  std::vector<View> by_input_;
};

/// Richardson: central differences at h and h/2 leave an error of h⁴ and rounding of about
/// eps · |objective| / h ≈ 6e-8 · 30 / 5e-3 < 5e-4.
double slope(Bench& bench, float& value) {
  const auto central = [&](float h) {
    const float before = value;
    value = before + h;
    const double above = bench.objective();
    value = before - h;
    const double below = bench.objective();
    value = before;
    return (above - below) / (2 * static_cast<double>(h));
  };
  return (4 * central(5e-3f) - central(1e-2f)) / 3;
}

class EveryLayer : public ::testing::TestWithParam<LayerCase> {};

TEST_P(EveryLayer, HasTheInputGradientOfItsForward) {
  const LayerSpec& spec = GetParam().spec;
  if (spec.x.dtype == DType::I32) return;  // tokens have no gradient
  Bench bench(spec);
  bench.backward();
  for (std::int64_t i = 0; i < bench.x.elements(); ++i) {
    const float dx = bench.dx.as<float>()[i];
    EXPECT_NEAR(dx, slope(bench, bench.x.as<float>()[i]), 2e-3) << "x[" << i << "]";
  }
}

TEST_P(EveryLayer, HasTheGradientsOfWhatItReadsAtPorts) {
  Bench bench(GetParam().spec);
  bench.backward();
  for (std::size_t r = 0; r < bench.reads.size(); ++r) {
    if (!bench.read_gradients[r]) continue;
    for (std::int64_t i = 0; i < bench.reads[r].elements(); ++i)
      EXPECT_NEAR(bench.read_gradients[r].as<float>()[i],
                  slope(bench, bench.reads[r].as<float>()[i]), 2e-3)
          << "port " << r << "[" << i << "]";
  }
}

TEST_P(EveryLayer, HasTheWeightGradientsOfItsForward) {
  Bench bench(GetParam().spec);
  bench.backward();
  for (const Parameter& parameter : bench.parameters) {
    for (std::int64_t i = 0; i < parameter.value.elements(); i += 3) {
      EXPECT_NEAR(parameter.gradient.as<float>()[i], slope(bench, parameter.value.as<float>()[i]),
                  2e-3)
          << GetParam().spec.name << "[" << i << "]";
    }
  }
}

TEST_P(EveryLayer, AddsTheGradientOfASecondMicrobatch) {
  Bench bench(GetParam().spec);
  if (bench.parameters.empty()) return;
  bench.backward(Write::Overwrite);
  const View gradient = bench.parameters[0].gradient;
  const std::vector<float> once(gradient.as<float>(), gradient.as<float>() + gradient.elements());
  bench.backward(Write::Accumulate);
  for (std::size_t i = 0; i < once.size(); ++i) {
    EXPECT_FLOAT_EQ(gradient.as<float>()[i], 2 * once[i]);
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, EveryLayer, ::testing::ValuesIn(layer_cases()),
                         [](const auto& info) {
                           std::string name;
                           for (char c : info.param.name)
                             name += std::isalpha(static_cast<unsigned char>(c)) ? c : '_';
                           return name;
                         });

TEST(Residual, AddsAndPassesTheGradientThrough) {
  const LayerSpec spec = spec::residual("r", kFlow, kFeatures, 0);
  EXPECT_TRUE(spec.dx_is_dy);
  std::vector<float> a(96, 1.5f);
  std::vector<float> b(96, 2.0f);
  std::vector<float> out(96);
  const auto view = [](std::vector<float>& v) {
    return View(reinterpret_cast<std::byte*>(v.data()), DType::F32, {12, 8});
  };
  ops::Compute compute(1);
  LayerKinds()(spec)->forward(compute, {.x = view(a), .y = view(out), .skip = view(b)});
  for (float value : out) EXPECT_EQ(value, 3.5f);
}

}  // namespace
}  // namespace cleave
