#pragma once

#include <algorithm>
#include <fstream>
#include <map>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "support/paths.h"

#include "cleave/comm/launcher.h"
#include "cleave/engine/compile/compile.h"
#include "cleave/engine/run/device.h"
#include "cleave/model/family.h"
#include "cleave/train/step/run_optimizer.h"

// What scripts/make_torch_golden.py and make_peft_golden.py compute with: the same model, weights,
// tokens and settings.
namespace cleave::testing {

inline constexpr std::int64_t kFormulaSequences = 4;
inline constexpr std::int64_t kFormulaSequence = 24;
inline constexpr std::int64_t kFormulaVocabulary = 61;
inline constexpr int kFormulaSteps = 10;

class FormulaSource : public engine::MicrobatchSource {
 public:
  void begin_step(std::int64_t step) { step_ = step; }
  void load(int, std::string_view input, View ids) override {
    const std::int64_t shift = input == "targets" ? 1 : 0;
    for (std::int64_t b = 0; b < kFormulaSequences; ++b) {
      for (std::int64_t t = 0; t < kFormulaSequence; ++t) {
        const std::int64_t p = t + shift;
        const std::int64_t q = p + 7 * b + 13 * step_;
        ids.as<std::int32_t>()[b * kFormulaSequence + t] =
            static_cast<std::int32_t>((q * q + 5 * p) % kFormulaVocabulary);
      }
    }
  }

 private:
  std::int64_t step_ = 0;
};

/// Tensor k of `names`, element i: ((1664525 i + 1013904223 (k + 1)) mod 2^24) / 2^24 - 1/2, over
/// 4; norms + 1.
inline void set_formula_weights(engine::Device& device, std::span<const std::string> names) {
  for (const engine::TensorState& tensor : device.tensors()) {
    const auto k =
        static_cast<std::uint64_t>(std::ranges::find(names, tensor.name) - names.begin());
    const bool norm = tensor.value.rank() == 1 && tensor.name.ends_with(".weight");
    tensor.set_weight([&](std::int64_t first, std::span<float> run) {
      for (std::size_t i = 0; i < run.size(); ++i) {
        const std::uint64_t at = static_cast<std::uint64_t>(first) + i;
        const std::uint64_t u = (at * 1664525 + 1013904223ull * (k + 1)) % (1ull << 24);
        const float w = (static_cast<float>(u) / 0x1p24f - 0.5f) / 4;
        run[i] = norm ? w + 1 : w;
      }
    });
  }
  device.refresh_values();
}

/// What is the same in every row of the golden files.
inline train::TrainConfig as_in_torch() {
  return {.steps = kFormulaSteps,
          .lr = 1e-2,
          .min_lr = 1e-3,
          .warmup = 2,
          .decay = 4,
          .betas = {0.9, 0.95},
          .weight_decay = 0.1,
          .clip = 1.0};
}

inline Graph formula_model(const model::Family* kind, DType dtype) {
  const bool llama = kind == &model::llama;
  const ModelShape shape{.kind = kind,
                         .layers = 2,
                         .hidden = 32,
                         .heads = 4,
                         .kv_heads = llama ? 2 : 4,
                         .ffn = 96,
                         .vocab = kFormulaVocabulary,
                         .context = kFormulaSequence,
                         .tie_embeddings = !llama};
  return model::graph_of(
      shape, {.sequences = kFormulaSequences, .sequence = kFormulaSequence, .dtype = dtype});
}

/// Ten steps on one device; `after` sees it after them.
inline std::vector<double> formula_losses(
    const Graph& model, const train::TrainConfig& train,
    const std::function<void(engine::Device&)>& after = [](engine::Device&) {}) {
  const engine::OptimizerKind& kind = engine::find_optimizer(train.optimizer);
  const engine::CompiledStep step =
      engine::compile(model, {.optimizer = &kind, .hyper = train::hyper_of(train, kind)});
  comm::LocalLauncher here;
  engine::Device device(step, 0, 1, here.processes());
  set_formula_weights(device, step.tensor_names);
  device.clear_slots();
  train::RunOptimizer optimizer(train);
  FormulaSource source;
  std::vector<double> losses;
  for (int s = 0; s < kFormulaSteps; ++s) {
    optimizer.begin_step(s);
    source.begin_step(s);
    losses.push_back(device.executor()
                         .run({.source = &source,
                               .optimizer = &optimizer,
                               .loss_scale = 1.0f / (kFormulaSequences * kFormulaSequence)})
                         .loss);
  }
  after(device);
  return losses;
}

/// Rows of `words` words and then numbers.
inline std::map<std::string, std::vector<double>> golden_rows(const std::string& name, int words) {
  std::map<std::string, std::vector<double>> rows;
  std::ifstream file(source_path("tests/golden/" + name));
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

}  // namespace cleave::testing
