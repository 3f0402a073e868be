// Ten steps against PyTorch: same weights, same tokens, same optimizer. The numbers are in
// tests/golden/torch_*.txt, made by scripts/make_torch_golden.py, whose formulas are repeated here.

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>

#include "support/paths.h"
#include <gtest/gtest.h>

#include "cleave/comm/launcher.h"
#include "cleave/engine/compile/compile.h"
#include "cleave/engine/run/device.h"
#include "cleave/train/step/run_optimizer.h"

namespace cleave::train {
namespace {

constexpr std::int64_t kSequences = 4;
constexpr std::int64_t kSequence = 24;
constexpr std::int64_t kVocabulary = 61;
constexpr int kSteps = 10;

class FormulaSource : public engine::MicrobatchSource {
 public:
  void begin_step(std::int64_t step) { step_ = step; }
  void load(int, std::string_view input, View ids) override {
    const std::int64_t shift = input == "targets" ? 1 : 0;
    for (std::int64_t b = 0; b < kSequences; ++b) {
      for (std::int64_t t = 0; t < kSequence; ++t) {
        const std::int64_t p = t + shift;
        const std::int64_t q = p + 7 * b + 13 * step_;
        ids.as<std::int32_t>()[b * kSequence + t] =
            static_cast<std::int32_t>((q * q + 5 * p) % kVocabulary);
      }
    }
  }

 private:
  std::int64_t step_ = 0;
};

void set_weights(engine::Device& device, std::span<const std::string> names) {
  for (const engine::TensorState& tensor : device.tensors()) {
    const auto k =
        static_cast<std::uint64_t>(std::ranges::find(names, tensor.name) - names.begin());
    const bool norm = tensor.master.rank() == 1 && tensor.name.ends_with(".weight");
    for (std::int64_t i = 0; i < tensor.master.elements(); ++i) {
      const std::uint64_t u =
          (static_cast<std::uint64_t>(i) * 1664525 + 1013904223ull * (k + 1)) % (1ull << 24);
      const float w = (static_cast<float>(u) / 0x1p24f - 0.5f) / 4;
      tensor.master.as<float>()[i] = norm ? w + 1 : w;
    }
  }
  device.refresh_values();
}

/// What is the same in every row of the golden files.
TrainConfig as_in_torch() {
  return {.steps = kSteps,
          .lr = 1e-2,
          .min_lr = 1e-3,
          .warmup = 2,
          .decay = 4,
          .betas = {0.9, 0.95},
          .weight_decay = 0.1,
          .clip = 1.0};
}

std::vector<double> losses(const model::Family* kind, DType dtype, const TrainConfig& train) {
  const bool llama = kind == &model::llama;
  const ModelShape shape{.kind = kind,
                         .layers = 2,
                         .hidden = 32,
                         .heads = 4,
                         .kv_heads = llama ? 2 : 4,
                         .ffn = 96,
                         .vocab = kVocabulary,
                         .context = kSequence,
                         .tie_embeddings = !llama};
  const engine::OptimizerKind& optimizer_kind = engine::find_optimizer(train.optimizer);
  const engine::CompiledStep step = engine::compile(
      model::graph_of(shape, {.sequences = kSequences, .sequence = kSequence, .dtype = dtype}),
      {.optimizer = &optimizer_kind, .hyper = hyper_of(train, optimizer_kind)});
  comm::LocalLauncher here;
  engine::Device device(step, 0, 1, here.processes());
  set_weights(device, step.tensor_names);
  device.clear_slots();
  RunOptimizer optimizer(train);
  FormulaSource source;
  std::vector<double> losses;
  for (int s = 0; s < kSteps; ++s) {
    optimizer.begin_step(s);
    source.begin_step(s);
    losses.push_back(device.executor()
                         .run({.source = &source,
                               .optimizer = &optimizer,
                               .loss_scale = 1.0f / (kSequences * kSequence)})
                         .loss);
  }
  return losses;
}

/// Rows of `words` words and then numbers.
std::map<std::string, std::vector<double>> golden(const std::string& name, int words) {
  std::map<std::string, std::vector<double>> rows;
  std::ifstream file(testing::source_path("tests/golden/" + name));
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("#")) continue;
    std::istringstream text(line);
    std::string row;
    for (int i = 0; i < words; ++i) {
      std::string word;
      text >> word;
      row += (row.empty() ? "" : " ") + word;
    }
    for (double loss; text >> loss;) rows[row].push_back(loss);
  }
  return rows;
}

TEST(TorchGolden, TenStepsGiveTheLossesOfPyTorch) {
  const auto expected = golden("torch_losses.txt", 2);
  ASSERT_EQ(expected.size(), 4);
  for (const model::Family* kind : {&model::gpt, &model::llama}) {
    for (DType dtype : {DType::F32, DType::BF16}) {
      const std::string row = std::string(kind->name) + " " + std::string(to_string(dtype));
      const std::vector<double> ours = losses(kind, dtype, as_in_torch());
      ASSERT_EQ(expected.at(row).size(), ours.size());
      const double tolerance = dtype == DType::F32 ? 1e-5 : 2e-2;  // what we promise
      for (int s = 0; s < kSteps; ++s) {
        const double theirs = expected.at(row)[s];
        EXPECT_NEAR(ours[s], theirs, tolerance * theirs) << row << ", step " << s;
      }
    }
  }
}

TEST(TorchGolden, OtherOptimizersAndLearningRatesGiveTheLossesOfPyTorch) {
  const auto expected = golden("torch_optimizers.txt", 3);
  ASSERT_EQ(expected.size(), 8);
  for (const model::Family* kind : {&model::gpt, &model::llama}) {
    for (const auto& [optimizer, schedule] :
         {std::pair{"adamw", "linear"}, {"sgd", "constant"}, {"lion", "wsd"}, {"muon", "linear"}}) {
      const std::string row = std::string(kind->name) + " " + optimizer + " " + schedule;
      TrainConfig train = as_in_torch();
      train.optimizer = optimizer;
      train.schedule = schedule;
      if (train.optimizer != "lion") train.momentum = 0.9;
      const std::vector<double> ours = losses(kind, DType::F32, train);
      for (int s = 0; s < kSteps; ++s) {
        const double theirs = expected.at(row).at(static_cast<std::size_t>(s));
        EXPECT_NEAR(ours[s], theirs, 1e-5 * theirs) << row << ", step " << s;
      }
    }
  }
}

}  // namespace
}  // namespace cleave::train
