// A text with images goes on as a full forward pass of training says, where rows of images also
// are added after several language layers.

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "support/tiny_model.h"
#include <gtest/gtest.h>

#include "cleave/base/philox.h"
#include "cleave/comm/launcher.h"
#include "cleave/comm/local/local_world.h"
#include "cleave/engine/compile/compile.h"
#include "cleave/engine/decode/decoder.h"
#include "cleave/engine/decode/image_encoder.h"
#include "cleave/engine/run/device.h"
#include "cleave/ops/elementwise.h"

namespace cleave::engine {
namespace {

constexpr std::int64_t kTokens = 16;
constexpr std::int64_t kPromptImages = 2;
constexpr std::int64_t kRowsOfAll = 8;  // four of each image
constexpr std::int64_t kFirstRow = 3;   // where they stand in the text

ModelShape with_features() {
  ModelShape shape = testing::tiny_shape(&model::vlm, 5);
  for (const std::int64_t layer : {0, 1}) shape.vision.deepstack.push_back(layer);
  return shape;
}

/// A text with images, of which one position alone counts.
class ImageText : public MicrobatchSource {
 public:
  void set(std::int64_t position, std::int32_t target) {
    position_ = position;
    target_ = target;
  }
  void load(int, std::string_view input, View out) override {
    if (input == "patches") return fill_patches(out);
    const std::vector<std::int32_t> values = input == "tokens" ? tokens() : places();
    std::ranges::copy(values, out.as<std::int32_t>());
    if (input != "targets") return;
    std::fill_n(out.as<std::int32_t>(), kTokens, -1);
    out.as<std::int32_t>()[position_] = target_;
  }

  static std::vector<std::int32_t> tokens() {
    std::vector<std::int32_t> tokens;
    for (std::int32_t t = 0; t < kTokens; ++t)
      tokens.push_back(static_cast<std::int32_t>(t * t * 7 % testing::kVocabulary));
    return tokens;
  }
  static std::vector<std::int32_t> places() {
    std::vector<std::int32_t> places;
    for (std::int32_t t = 0; t < kTokens; ++t) {
      const bool image = t >= kFirstRow && t < kFirstRow + kRowsOfAll;
      places.push_back(image ? t - static_cast<std::int32_t>(kFirstRow) : -1);
    }
    return places;
  }
  static void fill_patches(View out) {
    const Philox random(3, "pixels");
    for (std::int64_t i = 0; i < out.elements(); ++i) out.as<float>()[i] = random.normal(i);
  }

 private:
  std::int64_t position_ = 0;
  std::int32_t target_ = 0;
};

/// Weights large enough that every token and every row matters.
void enlarge(Device& device) {
  device.initialise(7);
  for (const TensorState& tensor : device.tensors()) {
    if (tensor.master.rank() > 1) ops::scale(device.compute(), tensor.master, 8, tensor.master);
  }
  device.refresh_values();
}

template <class To>
void hand_weights(const Device& from, To& to) {
  std::map<std::string, View> values;
  for (const TensorState& tensor : from.tensors()) values[tensor.name] = tensor.value;
  for (const Decoder::Weight& weight : to.weights())
    ops::copy(to.compute(), values.at(weight.name), weight.value);
}

std::vector<std::vector<float>> features_of(const ModelShape& shape, const Device& weights) {
  std::vector<std::vector<float>> features;
  for (const char* last : {"projector", "merger 0", "merger 1"}) {
    ImageEncoder encoder(shape, {.images = kPromptImages, .last = last});
    hand_weights(weights, encoder);
    ImageText::fill_patches(encoder.patches());
    const View rows = encoder.encode();
    features.emplace_back(rows.as<float>(), rows.as<float>() + rows.elements());
  }
  return features;
}

/// The logits after each token from `first` on.
std::vector<std::vector<float>> logits_from(std::size_t first, int devices, const ModelShape& shape,
                                            const Device& weights) {
  std::vector<std::vector<float>> features = features_of(shape, weights);
  const std::vector<std::int32_t> tokens = ImageText::tokens();
  const std::vector<std::int32_t> places = ImageText::places();
  std::vector<std::vector<float>> all;
  comm::run_devices(devices, [&](comm::Communicator& world) {
    Decoder decoder(shape, {.length = kTokens, .world = &world});
    hand_weights(weights, decoder);
    std::vector<ConstView> views;
    for (std::vector<float>& rows : features)
      views.emplace_back(reinterpret_cast<const std::byte*>(rows.data()), DType::F32,
                         Shape{kRowsOfAll, shape.hidden});
    decoder.place(places, views);
    for (std::size_t end = first; end <= tokens.size(); ++end) {
      const std::size_t begin = end == first ? 0 : end - 1;
      const auto logits = decoder.append(std::span(tokens).subspan(begin, end - begin));
      if (!logits.empty()) all.emplace_back(logits.begin(), logits.end());
    }
  });
  return all;
}

// The tolerance is that of DecoderLogits, for three language layers.
TEST(ImageDecoder, GoesOnAsAFullForwardDoes) {
  const ModelShape shape = with_features();
  const CompiledStep step = compile(
      model::graph_of(shape, {.sequences = 1, .sequence = kTokens, .images = kPromptImages}), {});
  comm::LocalLauncher here;
  Device device(step, 0, 1, here.processes());
  enlarge(device);
  ImageText source;
  const std::size_t first = 4;
  const auto alone = logits_from(first, 1, shape, device);
  EXPECT_EQ(alone, logits_from(first, 3, shape, device));
  ASSERT_EQ(alone.size(), kTokens - first + 1);
  for (std::size_t i = 0; i < alone.size(); ++i) {
    double sum = 0;
    for (const float logit : alone[i]) sum += std::exp(static_cast<double>(logit));
    const double least = static_cast<double>(std::ranges::min(alone[i])) - std::log(sum);
    for (std::int32_t token = 0; token < testing::kVocabulary; token += 7) {
      source.set(static_cast<std::int64_t>(first + i) - 1, token);
      MicrobatchSums sums;
      device.executor().evaluate(source, {&sums, 1});
      const double ours = static_cast<double>(alone[i][static_cast<std::size_t>(token)]);
      ASSERT_NEAR(ours - std::log(sum), -sums.loss, 3 * (kTokens + 64) * 0x1p-24 * -least)
          << "token " << token << " after " << first + i;
    }
  }
}

}  // namespace
}  // namespace cleave::engine
