// Ten steps against PyTorch: same weights, same tokens, same optimizer. The numbers are in
// tests/golden/torch_losses.txt, made by scripts/make_torch_golden.py, whose formulas are repeated
// here.

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

std::vector<double> losses(const model::Family* kind, DType dtype) {
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
  const engine::CompiledStep step = engine::compile(
      model::graph_of(shape, {.sequences = kSequences, .sequence = kSequence, .dtype = dtype}), {});
  comm::LocalLauncher here;
  engine::Device device(step, 0, 1, here.processes());
  set_weights(device, step.tensor_names);
  RunOptimizer optimizer({.steps = kSteps,
                          .lr = 1e-2,
                          .min_lr = 1e-3,
                          .warmup = 2,
                          .betas = {0.9, 0.95},
                          .weight_decay = 0.1,
                          .clip = 1.0});
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

std::map<std::string, std::vector<double>> golden() {
  std::map<std::string, std::vector<double>> rows;
  std::ifstream file(testing::source_path("tests/golden/torch_losses.txt"));
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("#")) continue;
    std::istringstream words(line);
    std::string kind;
    std::string dtype;
    words >> kind >> dtype;
    for (double loss; words >> loss;) rows[kind + " " + dtype].push_back(loss);
  }
  return rows;
}

TEST(TorchGolden, TenStepsGiveTheLossesOfPyTorch) {
  const auto expected = golden();
  ASSERT_EQ(expected.size(), 4);
  for (const model::Family* kind : {&model::gpt, &model::llama}) {
    for (DType dtype : {DType::F32, DType::BF16}) {
      const std::string row = std::string(kind->name) + " " + std::string(to_string(dtype));
      const std::vector<double> ours = losses(kind, dtype);
      ASSERT_EQ(expected.at(row).size(), ours.size());
      const double tolerance = dtype == DType::F32 ? 1e-5 : 2e-2;  // what we promise
      for (int s = 0; s < kSteps; ++s) {
        const double theirs = expected.at(row)[s];
        EXPECT_NEAR(ours[s], theirs, tolerance * theirs) << row << ", step " << s;
      }
    }
  }
}

}  // namespace
}  // namespace cleave::train
