#include "cleave/engine/decode/decoder.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <vector>

#include "support/errors.h"
#include "support/tiny_model.h"
#include <gtest/gtest.h>

#include "cleave/base/philox.h"
#include "cleave/comm/launcher.h"
#include "cleave/comm/local/local_world.h"
#include "cleave/engine/compile/compile.h"
#include "cleave/engine/run/device.h"
#include "cleave/ops/elementwise.h"

namespace cleave::engine {
namespace {

constexpr std::int64_t kLength = 80;  // a whole block of the prompt, and more
using testing::kVocabulary;

ModelShape tiny(const model::Family* kind) {
  ModelShape shape = testing::tiny_shape(kind, 3);
  shape.context = kLength;
  return shape;
}

std::vector<std::int32_t> tokens() {
  const Philox random(5, "tokens");
  std::vector<std::int32_t> tokens(kLength);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<std::int32_t>(random.below(kVocabulary, i));
  }
  return tokens;
}

/// One sequence of which one position alone counts.
class OneTarget : public MicrobatchSource {
 public:
  void set(std::int64_t position, std::int32_t target) {
    position_ = position;
    target_ = target;
  }
  void load(int, std::string_view input, View out) override {
    if (input == "tokens") {
      std::ranges::copy(tokens(), out.as<std::int32_t>());
      return;
    }
    std::fill_n(out.as<std::int32_t>(), kLength, -1);
    out.as<std::int32_t>()[position_] = target_;
  }

 private:
  std::int64_t position_ = 0;
  std::int32_t target_ = 0;
};

/// Weights large enough that every token matters.
void fill(Device& device) {
  device.initialise(7);
  for (const TensorState& tensor : device.tensors()) {
    if (tensor.master.rank() > 1) ops::scale(device.compute(), tensor.master, 8, tensor.master);
  }
  device.refresh_values();
}

void copy_weights(const Device& from, Decoder& to) {
  std::map<std::string, View> values;
  for (const TensorState& tensor : from.tensors()) values[tensor.name] = tensor.value;
  for (const Decoder::Weight& weight : to.weights()) {
    ops::copy(to.compute(), values.at(weight.name), weight.value);
  }
}

/// log of the softmax
std::vector<double> log_probabilities(std::span<const float> logits) {
  double sum = 0;
  for (float logit : logits) sum += std::exp(static_cast<double>(logit));
  std::vector<double> out;
  for (float logit : logits) out.push_back(static_cast<double>(logit) - std::log(sum));
  return out;
}

class DecoderLogits : public ::testing::TestWithParam<std::tuple<const model::Family*, DType>> {
 protected:
  DecoderLogits() { fill(device); }

  const ModelShape shape = tiny(std::get<const model::Family*>(GetParam()));
  const DType dtype = std::get<DType>(GetParam());
  const CompiledStep step =
      compile(model::graph_of(shape, {.sequences = 1, .sequence = kLength, .dtype = dtype}), {});
  comm::LocalLauncher here;
  Device device{step, 0, 1, here.processes()};
};

// Both ways do the same products; attention sums its keys in another order. In f32 that moves a
// logit by at most (keys + features) roundings of 2^-24 per layer. In bf16 it can change the
// rounding of attention's result, by 2^-8, once per layer, and of the logit itself. A token too
// many or too few in the cache moves log-probabilities by up to 0.9.
TEST_P(DecoderLogits, AreThoseOfAFullForward) {
  Decoder decoder(shape, {.dtype = dtype, .length = kLength, .world = &here.processes()});
  ASSERT_EQ(device.tensors().size(), decoder.weights().size());
  copy_weights(device, decoder);
  const double roundings = dtype == DType::F32 ? 3 * (kLength + 64) * 0x1p-24 : (3 + 1) * 0x1p-8;

  const std::vector<std::int32_t> all = tokens();
  OneTarget source;
  const auto expect_same = [&](std::span<const float> logits) {
    const std::vector<double> ours = log_probabilities(logits);
    const double tolerance = roundings * -std::ranges::min(ours);
    for (std::int32_t token = 0; token < kVocabulary; token += 7) {
      source.set(decoder.position() - 1, token);
      engine::MicrobatchSums sums;
      device.executor().evaluate(source, {&sums, 1});
      ASSERT_NEAR(ours[token], -sums.loss, tolerance)
          << "token " << token << " at " << decoder.position();
    }
  };
  for (std::size_t prompt : {1u, 2u, 64u, 65u, 66u, 79u}) {
    decoder.restart();
    expect_same(decoder.append(std::span(all).first(prompt)));
    expect_same(decoder.append(std::span(all).subspan(prompt, 1)));
  }
  EXPECT_EQ(decoder.arena().peak(), decoder.planned_bytes());
}

/// What follows after a prompt of more than a block, and after each token behind it.
std::vector<std::vector<float>> logits_on(int devices, const ModelShape& shape,
                                          const Device& weights, DType dtype) {
  std::vector<std::vector<float>> all;
  comm::run_devices(devices, [&](comm::Communicator& world) {
    Decoder decoder(shape, {.dtype = dtype, .length = kLength, .world = &world});
    copy_weights(weights, decoder);
    const std::vector<std::int32_t> sequence = tokens();
    auto rest = std::span(sequence);
    for (std::size_t count : {70u, 1u, 2u, 1u}) {
      const auto logits = decoder.append(rest.first(count));
      rest = rest.subspan(count);
      EXPECT_EQ(logits.empty(), world.rank() + 1 < devices);
      if (!logits.empty()) all.emplace_back(logits.begin(), logits.end());
    }
    EXPECT_EQ(decoder.arena().peak(), decoder.planned_bytes());
  });
  return all;
}

TEST_P(DecoderLogits, AreTheSameBitsOnAnyNumberOfDevices) {
  const auto alone = logits_on(1, shape, device, dtype);
  EXPECT_EQ(alone.size(), 4u);
  EXPECT_NE(alone[0], alone[1]);
  // With five of them, the first has the embedding alone and the last the head alone.
  for (int devices : {2, 3, 5}) EXPECT_EQ(logits_on(devices, shape, device, dtype), alone);
}

INSTANTIATE_TEST_SUITE_P(Models, DecoderLogits,
                         ::testing::Combine(::testing::Values(&model::gpt, &model::llama),
                                            ::testing::Values(DType::F32, DType::BF16)));

TEST(Decoder, RefusesWhatDoesNotFit) {
  const ModelShape shape = tiny(&model::gpt);
  comm::LocalLauncher here;
  Decoder::Options options{.length = 10, .world = &here.processes()};
  const std::int64_t planned = Decoder(shape, options).planned_bytes();
  options.budget = planned - 1;
  try {
    Decoder(shape, options);
    FAIL() << "it should not fit";
  } catch (const DoesNotFit& error) {
    EXPECT_NE(std::string(error.what()).find(std::to_string(planned)), std::string::npos);
  }
}

TEST(Decoder, RefusesMoreDevicesThanPieces) {
  const auto six = [] {
    comm::run_devices(6, [](comm::Communicator& world) {
      Decoder(tiny(&model::gpt), {.length = 10, .world = &world});
    });
  };
  EXPECT_EQ(testing::user_error(six),
            "6 devices cannot share a model of 5 pieces (its layers, embedding and head); use "
            "fewer");
}

}  // namespace
}  // namespace cleave::engine
