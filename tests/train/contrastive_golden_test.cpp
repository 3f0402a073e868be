// Ten steps of models that hold images and texts against each other: against the classes of
// transformers (tests/golden/contrastive_losses.txt, made by scripts/make_contrastive_golden.py,
// whose formulas are repeated here), and in many cuts of a step.

#include <algorithm>

#include "train/golden_losses.h"
#include "train/golden_run.h"
#include <gtest/gtest.h>

#include "cleave/model/family.h"

namespace cleave::train {
namespace {

constexpr std::int64_t kTextLength = 9;
constexpr std::int64_t kSide = 8;
constexpr std::int64_t kPatchSide = 4;
constexpr std::int64_t kColours = 3;
constexpr std::int32_t kEnd = 60;
constexpr std::int64_t kSamples = 12;

/// Pairs by formula, from sample `first` of each step on, `rows` in a microbatch.
class FormulaPairs : public engine::MicrobatchSource {
 public:
  FormulaPairs(std::int64_t first, std::int64_t rows) : first_(first), rows_(rows) {}
  void begin_step(std::int64_t step) { step_ = step; }

  void load(int index, std::string_view input, View tensor) override {
    std::int64_t i = 0;
    for (std::int64_t row = 0; row < rows_; ++row) {
      const std::int64_t b = first_ + index * rows_ + row;
      const std::int64_t length = 3 + (b + step_) % 6;
      if (input == "patches") {
        testing::put_image(tensor, i, {kSide, kPatchSide, kColours}, b, step_);
      } else if (input == "ends") {
        tensor.as<std::int32_t>()[i++] = static_cast<std::int32_t>(row * kTextLength + length);
      } else {
        for (std::int64_t t = 0; t < kTextLength; ++t) {
          const std::int64_t q = 7 * t + 11 * b + 3 * step_;
          tensor.as<std::int32_t>()[i++] =
              t < length ? static_cast<std::int32_t>(q * q % 59) : kEnd;
        }
      }
    }
  }

 private:
  std::int64_t first_;
  std::int64_t rows_;
  std::int64_t step_ = 0;
};

ModelShape pair_shape(const std::string& family) {
  const bool clip = family == "clip";
  return {.kind = clip ? &model::clip : &model::siglip,
          .layers = 2,
          .hidden = 24,
          .heads = 4,
          .kv_heads = 4,
          .ffn = 40,
          .vocab = 61,
          .context = kTextLength,
          .tie_embeddings = false,
          .norm_eps = clip ? 1e-5 : 1e-6,
          .image = kSide,
          .patch = kPatchSide,
          .channels = kColours,
          .gelu = clip ? GeluForm::Quick : GeluForm::Tanh,
          .vision = {.layers = 2,
                     .hidden = 32,
                     .heads = 4,
                     .ffn = 48,
                     .norm_eps = clip ? 1e-5 : 1e-6,
                     .class_token = clip},
          .features = clip ? 16 : 32};
}

/// Tensor k of a checkpoint (by name), element i: as formula_weights.h has it. Parts of one tensor
/// are counted through it.
void set_pair_weights(engine::Device& device, std::vector<std::string> names) {
  names.erase(std::unique(names.begin(), names.end()), names.end());
  for (const engine::TensorState& tensor : device.tensors()) {
    const auto k =
        static_cast<std::uint64_t>(std::ranges::find(names, tensor.name) - names.begin());
    const bool norm = tensor.master.rank() == 1 && tensor.name.ends_with(".weight");
    const std::int64_t row = tensor.master.elements() / tensor.master.size(0);
    for (std::int64_t j = 0; j < tensor.master.elements(); ++j) {
      const auto i = static_cast<std::uint64_t>(tensor.start * row + j);
      const std::uint64_t u = (i * 1664525 + 1013904223ull * (k + 1)) % (1ull << 24);
      const float w = (static_cast<float>(u) / 0x1p24f - 0.5f) / 4;
      tensor.master.as<float>()[j] = tensor.name == "logit_scale"  ? 2.0f
                                     : tensor.name == "logit_bias" ? -2.5f
                                     : norm                        ? w + 1
                                                                   : w;
    }
  }
  device.refresh_values();
}

struct PairCut {
  std::int64_t rows = kSamples;
  int pipeline = 1;
  int data = 1;
  int shards = 1;
  int zero = 0;
  std::vector<schedule::Recompute> recompute = {};
};

struct PairRun {
  std::vector<double> losses;
  std::string weights;
  bool as_planned = true;
};

PairRun ten_steps(const std::string& family, DType dtype, const PairCut& cut = {}) {
  const TrainConfig train = testing::golden_optimizer(3e-4);
  const engine::OptimizerKind& adamw = engine::find_optimizer(train.optimizer);
  engine::CompileOptions options{.optimizer = &adamw, .hyper = hyper_of(train, adamw)};
  options.layout = {.pipeline = cut.pipeline,
                    .data = cut.data,
                    .schedule = "auto",
                    .zero = cut.zero,
                    .recompute = cut.recompute};
  options.microbatches = static_cast<int>(kSamples / cut.rows / cut.data);
  options.data_shards = cut.shards;
  const engine::CompiledStep step = engine::compile(
      model::graph_of(
          pair_shape(family),
          {.sequences = cut.rows, .sequence = kTextLength, .dtype = dtype, .step = kSamples}),
      options);
  PairRun run;
  std::vector<std::vector<std::pair<std::string, std::uint64_t>>> hashes(
      static_cast<std::size_t>(step.devices()));
  std::vector<char> planned(hashes.size());
  const auto work = [&](comm::Communicator& world) {
    const int index = world.rank();
    engine::Device device(step, index, 1, world);
    set_pair_weights(device, step.tensor_names);
    device.clear_slots();
    RunOptimizer optimizer(train);
    FormulaPairs source(step.replica_of(index) * kSamples / cut.data, cut.rows);
    for (int s = 0; s < testing::kGoldenSteps; ++s) {
      optimizer.begin_step(s);
      source.begin_step(s);
      const double loss =
          device.executor()
              .run({.source = &source, .optimizer = &optimizer, .loss_scale = 1.0f / kSamples})
              .loss;
      if (index == 0) run.losses.push_back(loss);
    }
    planned[static_cast<std::size_t>(index)] = device.arena().peak() == step.planned_on(index);
    if (device.is_owner()) hashes[static_cast<std::size_t>(index)] = device.weight_hashes();
  };
  comm::LocalLauncher().run(step.devices(), 1, work, {});
  std::vector<std::pair<std::string, std::uint64_t>> all;
  for (const auto& own : hashes) all.insert(all.end(), own.begin(), own.end());
  run.weights = engine::combine_hashes(all);
  run.as_planned = std::ranges::count(planned, 0) == 0;
  return run;
}

TEST(ContrastiveGolden, TenStepsGiveTheLossesOfTransformers) {
  const int lines =
      testing::expect_golden_losses("tests/golden/contrastive_losses.txt", 1,
                                    [](const std::vector<std::string>& words, DType dtype) {
                                      return ten_steps(words[0], dtype).losses;
                                    });
  EXPECT_EQ(lines, 4);
}

class PairsOf : public ::testing::TestWithParam<const char*> {};

TEST_P(PairsOf, HaveTheSameWeightsInTheLayoutsOfOneGrid) {
  using schedule::Recompute;
  const PairRun expected = ten_steps(GetParam(), DType::F32, {.rows = 3, .shards = 4});
  for (const PairCut& cut :
       {PairCut{.rows = 3, .data = 2, .shards = 4}, PairCut{.rows = 3, .data = 4, .shards = 4},
        PairCut{.rows = 3, .pipeline = 2, .shards = 4},
        PairCut{.rows = 3, .pipeline = 3, .data = 2, .shards = 4},
        PairCut{.rows = 3, .pipeline = 5, .shards = 4},
        PairCut{.rows = 3, .data = 4, .shards = 4, .zero = 1},
        PairCut{.rows = 3, .data = 2, .shards = 4, .zero = 2},
        PairCut{.rows = 3, .pipeline = 2, .data = 2, .shards = 4, .zero = 3},
        PairCut{.rows = 3, .pipeline = 2, .shards = 4, .recompute = {Recompute::Full}},
        PairCut{.rows = 3, .data = 2, .shards = 4, .recompute = {Recompute::Selective}}}) {
    const PairRun run = ten_steps(GetParam(), DType::F32, cut);
    EXPECT_EQ(run.losses, expected.losses) << cut.pipeline << " x " << cut.data;
    EXPECT_EQ(run.weights, expected.weights) << cut.pipeline << " x " << cut.data;
    EXPECT_TRUE(run.as_planned);
  }
}

TEST_P(PairsOf, BeginWithOneLossInEveryCutOfAStep) {
  const PairRun whole = ten_steps(GetParam(), DType::F32);
  for (const PairCut& cut :
       {PairCut{.rows = 1}, PairCut{.rows = 4}, PairCut{.rows = 2, .data = 2, .shards = 2}}) {
    const PairRun run = ten_steps(GetParam(), DType::F32, cut);
    EXPECT_EQ(run.losses[0], whole.losses[0]) << cut.rows;
    EXPECT_NEAR(run.losses[1], whole.losses[1], 1e-5 * whole.losses[1]) << cut.rows;
  }
}

INSTANTIATE_TEST_SUITE_P(Families, PairsOf, ::testing::Values("clip", "siglip"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace cleave::train
