#pragma once

// Steps of a tiny model that reads images, of whose microbatches some have none, on any layout.

#include <array>
#include <chrono>
#include <cmath>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/tiny_model.h"
#include <gtest/gtest.h>

#include "cleave/comm/local/local_world.h"
#include "cleave/engine/compile/compile.h"
#include "cleave/engine/run/device.h"
#include "cleave/spec/trainable.h"
#include "cleave/train/step/dealing.h"
#include "cleave/train/step/run_optimizer.h"

namespace cleave::engine::presence {

using testing::tiny_model;

inline constexpr int kAllMicrobatches = 8;  // of a step
inline constexpr int kGridShards = 4;
inline constexpr std::array kWithImages = {3, 0, 8, 5, 1, 6};  // of them, step by step

/// Texts with 0, 1 or 3 images: of the microbatches in the order in which they are dealt, the first
/// `with` have some.
class MixedSource : public train::RandomSource {
 public:
  MixedSource(const train::Dealing& dealing, int step, int with)
      : train::RandomSource(static_cast<std::uint64_t>(step), testing::kVocabulary),
        dealing_(dealing),
        with_(with) {}

  void load(int index, std::string_view input, View tensor) override {
    const auto number = static_cast<int>(dealing_.number_of(index));
    RandomSource::load(number, input, tensor);
    if (input != "places") return;
    const int rows = number >= with_ ? 0 : number % 2 == 0 ? 4 : 12;  // an image has four
    for (int t = 0; t < tensor.elements(); ++t) tensor.as<std::int32_t>()[t] = t < rows ? t : -1;
  }

 private:
  train::Dealing dealing_;
  int with_;
};

/// Every load takes from 1 us to 1 s, most of them little.
class LateSource : public MixedSource {
 public:
  LateSource(const train::Dealing& dealing, int step, int with, int device)
      : MixedSource(dealing, step, with), random_(static_cast<std::uint64_t>(device), "late") {}

  void load(int index, std::string_view input, View tensor) override {
    const double exponent = static_cast<double>(random_.below(6000, next_++)) / 1000;
    std::this_thread::sleep_for(std::chrono::microseconds(std::lround(std::pow(10, exponent))));
    MixedSource::load(index, input, tensor);
  }

 private:
  Philox random_;
  std::uint64_t next_ = 0;
};

inline std::vector<InputCount> counts() {
  return {{0, 1}, {1, 1}, {3, 1}, {5, 1}, {6, 1}, {8, 1}};
}

inline CompiledStep compiled(const Graph& graph, const Layout& layout,
                             std::vector<InputCount> inputs) {
  return compile(graph, {.layout = layout,
                         .microbatches = kAllMicrobatches / layout.replicas(),
                         .data_shards = kGridShards,
                         .tensor_shards = layout.tensor > 1 ? 2 : 1,
                         .optional_inputs = std::move(inputs)});
}

inline train::Dealing dealing_of(const CompiledStep& step, int device) {
  return {.shards = kGridShards,
          .first_shard = step.replica_of(device) * step.fold.shards,
          .per_shard = step.fold.per_shard()};
}

struct Outcome {
  std::string weights;
  std::vector<double> losses;
  bool as_planned = true;  // bytes of memory, of the programs that have run
  bool sent_as_planned = true;
};

enum class Loads { AtOnce, Late };

inline Outcome train(const CompiledStep& step, std::size_t steps = kWithImages.size(),
                     Loads loads = Loads::AtOnce) {
  const float scale = 1.0f / static_cast<float>(kAllMicrobatches * loss_count(step.model));
  std::mutex mutex;
  Outcome outcome;
  std::vector<std::pair<std::string, std::uint64_t>> hashes;
  comm::run_devices(step.devices(), [&](comm::Communicator& world) {
    const int index = world.rank();
    Device device(step, index, 1, world);
    device.initialise(7);
    train::RunOptimizer optimizer({.steps = 6, .lr = 1e-2, .warmup = 1});
    for (std::size_t s = 0; s < steps; ++s) {
      const int number = static_cast<int>(s);
      const train::Dealing dealing = dealing_of(step, index);
      MixedSource source(dealing, number, kWithImages[s]);
      LateSource late(dealing, number, kWithImages[s], index);
      const int pattern = step.pattern_of(kWithImages[s]);
      optimizer.begin_step(number);
      const comm::Sent before = world.sent();
      MixedSource* used = loads == Loads::Late ? &late : &source;
      const StepResult result = device.executor().run({.source = used,
                                                       .optimizer = &optimizer,
                                                       .loss_scale = scale,
                                                       .search = Search::NonFinite,
                                                       .pattern = pattern});
      const std::lock_guard lock(mutex);
      outcome.sent_as_planned =
          outcome.sent_as_planned && world.sent() - before == step.traffic_of(pattern)[index];
      outcome.as_planned = outcome.as_planned &&
                           device.arena().peak() == device.executor().planned_bytes() &&
                           device.arena().peak() <= step.planned_on(index);
      if (index == 0) outcome.losses.push_back(result.loss);
    }
    const std::lock_guard lock(mutex);
    if (!device.is_owner()) return;
    for (auto& hash : device.weight_hashes()) hashes.push_back(hash);
  });
  outcome.weights = combine_hashes(hashes);
  return outcome;
}

inline std::string name_of(const Layout& l) {
  return detail::concat(l.schedule, ", pipeline ", l.pipeline, ", data ", l.data, ", tensor ",
                        l.tensor, ", zero ", l.zero, ", placement ", static_cast<int>(l.placement),
                        ", data of the encoder ", l.encoder_data);
}

inline void expect_bits(const Graph& graph, const Outcome& expected,
                        const std::vector<Layout>& all) {
  for (const Layout& layout : all) {
    SCOPED_TRACE(name_of(layout));
    const Outcome outcome = train(compiled(graph, layout, counts()));
    EXPECT_EQ(outcome.losses, expected.losses);
    EXPECT_EQ(outcome.weights, expected.weights);
    EXPECT_TRUE(outcome.as_planned);
    EXPECT_TRUE(outcome.sent_as_planned);
  }
}

/// `encoder` replicas of one stage of the tower that feed `data` of two language stages, as
/// `others` says.
inline Layout unequal(int encoder, int data, Layout others = {}) {
  others.pipeline = 3;
  others.data = data;
  others.placement = Placement::Own;
  others.encoder_stages = 1;
  others.encoder_data = encoder;
  return others;
}

}  // namespace cleave::engine::presence
