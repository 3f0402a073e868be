#include <cstring>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "cleave/base/philox.h"
#include "cleave/layers/layer_kinds.h"
#include "cleave/spec/layers.h"
#include "cleave/spec/window_layers.h"
#include "cleave/tensor/arena.h"

namespace cleave {
namespace {

// 832 KB of rows for each image: more of them than are worked on at once.
constexpr WindowShape kWindow{.height = 40, .width = 40, .channels = 16, .size = 3};
constexpr std::int64_t kImages = 5;

/// F and I of the images [first, first + count).
struct Convolved {
  Arena arena;
  View y, dx;

  Convolved(int threads, std::int64_t first, std::int64_t count) : arena(32 << 20) {
    const spec::Flow flow{.sequences = count, .sequence = 1, .dtype = DType::F32};
    const LayerSpec spec = spec::convolution("c", flow, kWindow, 6);
    const std::unique_ptr<Layer> layer = LayerKinds()(spec);
    const View x = take(spec.x, first);
    const View dy = take(spec.y, first);
    y = take(spec.y, 0);
    dx = take(spec.x, 0);
    std::vector<Parameter> parameters;
    for (const ParameterSpec& parameter : spec.parameters)
      parameters.push_back({take({parameter.name, DType::F32, parameter.shape}, 0), View()});
    layer->bind(parameters, {});
    ops::Compute compute(threads);
    compute.set_scratch({arena.at(end_), static_cast<std::size_t>(layer->scratch_bytes(compute))});
    const LayerCall call{.x = x, .y = y, .dy = dy, .dx = dx};
    layer->forward(compute, call);
    layer->backward_input(compute, call);
  }

 private:
  /// With the numbers of what begins `first` rows later.
  View take(const TensorSpec& tensor, std::int64_t first) {
    const View view(arena.at(end_), DType::F32, tensor.shape);
    end_ += tensor.bytes();
    const std::int64_t row = tensor.shape.elements() / tensor.shape[0];
    const Philox random(1, "convolution test", tensor.name);
    for (std::int64_t i = 0; i < view.elements(); ++i)
      view.as<float>()[i] = random.normal(static_cast<std::uint64_t>(first * row + i));
    return view;
  }

  std::int64_t end_ = 0;
};

void expect_row(const View& all, std::int64_t row, const View& alone) {
  const View own = all.slice(0, row, 1);
  EXPECT_EQ(std::memcmp(own.bytes(), alone.bytes(), static_cast<std::size_t>(alone.byte_count())),
            0)
      << row;
}

TEST(Convolution, GivesEachImageTheBitsThatItHasAlone) {
  for (const int threads : {1, 2}) {
    const Convolved all(threads, 0, kImages);
    for (std::int64_t image = 0; image < kImages; ++image) {
      const Convolved alone(threads, image, 1);
      expect_row(all.y, image, alone.y);
      expect_row(all.dx, image, alone.dx);
    }
  }
}

}  // namespace
}  // namespace cleave
