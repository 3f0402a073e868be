// Directories that transformers saved: the same logits, and the same losses over ten steps of
// AdamW. tests/golden/hugging_face has a directory for each family, made by
// scripts/hugging_face_golden, whose formula for tokens is repeated here.

#include "cleave/model/hugging_face.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "support/temporary_directory.h"
#include "train/golden_directory.h"
#include <gtest/gtest.h>

#include "cleave/base/file.h"
#include "cleave/comm/launcher.h"
#include "cleave/engine/compile/compile.h"
#include "cleave/engine/decode/decoder.h"
#include "cleave/engine/run/device.h"
#include "cleave/ops/elementwise.h"
#include "cleave/train/config/model_directory.h"
#include "cleave/train/save/export.h"
#include "cleave/train/save/saving.h"
#include "cleave/train/step/run_optimizer.h"

namespace cleave::train {
namespace {

namespace fs = std::filesystem;
using testing::golden_directory;
using testing::reader_of;

constexpr std::int64_t kSequences = 2;
constexpr std::int64_t kSequence = 20;
constexpr int kSteps = 10;

std::vector<std::string> golden_names() {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(golden_directory()))
    names.push_back(entry.path().filename());
  std::ranges::sort(names);
  return names;
}

/// The rows of expected.txt that begin with `word`.
std::vector<std::vector<double>> expected(const fs::path& directory, const std::string& word) {
  std::vector<std::vector<double>> rows;
  std::ifstream file(directory / "expected.txt");
  for (std::string line; std::getline(file, line);) {
    std::istringstream text(line);
    std::string first;
    text >> first;
    if (first != word) continue;
    for (rows.emplace_back(); text >> std::ws && !text.eof();) text >> rows.back().emplace_back();
  }
  return rows;
}

std::int32_t token(std::int64_t step, std::int64_t sequence, std::int64_t position,
                   std::int64_t vocabulary) {
  const std::int64_t q = position + 7 * sequence + 13 * step;
  return static_cast<std::int32_t>((q * q + 5 * position) % vocabulary);
}

class FormulaTokens : public engine::MicrobatchSource {
 public:
  explicit FormulaTokens(std::int64_t vocabulary) : vocabulary_(vocabulary) {}
  void begin_step(std::int64_t step) { step_ = step; }
  void load(int, std::string_view input, View ids) override {
    const std::int64_t shift = input == "targets" ? 1 : 0;
    for (std::int64_t b = 0; b < kSequences; ++b) {
      for (std::int64_t t = 0; t < kSequence; ++t)
        ids.as<std::int32_t>()[b * kSequence + t] = token(step_, b, t + shift, vocabulary_);
    }
  }

 private:
  std::int64_t vocabulary_;
  std::int64_t step_ = 0;
};

std::vector<std::vector<double>> logits_of(const fs::path& directory) {
  const checkpoint::CheckpointReader reader = reader_of(directory);
  const ModelShape shape = config_of(reader).model;
  comm::LocalLauncher here;
  engine::Decoder decoder(shape, {.length = kSequence, .world = &here.processes()});
  for (const engine::Decoder::Weight& weight : decoder.weights()) {
    const auto count = static_cast<std::size_t>(weight.value.elements());
    reader.read_weight(weight.name, 0, {weight.value.as<float>(), count});
  }
  std::vector<std::vector<double>> rows;
  for (std::int64_t position = 0; position < kSequence; ++position) {
    const std::int32_t next[] = {token(0, 0, position, shape.vocab)};
    const std::span<const float> logits = decoder.append(next);
    rows.emplace_back(logits.begin(), logits.end());
  }
  return rows;
}

std::vector<double> losses_of(const fs::path& directory) {
  const checkpoint::CheckpointReader reader = reader_of(directory);
  const ModelShape shape = config_of(reader).model;
  const TrainConfig train{.steps = kSteps,
                          .schedule = "constant",
                          .lr = 5e-3,
                          .warmup = 0,
                          .betas = {0.9, 0.95},
                          .weight_decay = 0.1,
                          .clip = 0};
  const engine::OptimizerKind& kind = engine::find_optimizer(train.optimizer);
  const engine::CompiledStep step =
      engine::compile(model::graph_of(shape, {.sequences = kSequences, .sequence = kSequence}),
                      {.optimizer = &kind, .hyper = hyper_of(train, kind)});
  comm::LocalLauncher here;
  engine::Device device(step, 0, 1, here.processes());
  device.initialise(1);
  load(reader, checkpoint_layout(step.model), device);
  RunOptimizer optimizer(train);
  FormulaTokens source(shape.vocab);
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

class HuggingFaceGolden : public ::testing::TestWithParam<std::string> {};

TEST_P(HuggingFaceGolden, HasTheLogitsOfTransformers) {
  const fs::path directory = golden_directory() / GetParam();
  const auto theirs = expected(directory, "logits");
  const auto ours = logits_of(directory);
  ASSERT_EQ(ours.size(), theirs.size());
  for (std::size_t position = 0; position < ours.size(); ++position) {
    ASSERT_EQ(ours[position].size(), theirs[position].size());
    for (std::size_t i = 0; i < ours[position].size(); ++i)
      ASSERT_NEAR(ours[position][i], theirs[position][i], 1e-5) << position << ", " << i;
  }
}

TEST_P(HuggingFaceGolden, HasTheLossesOfTenStepsInPyTorch) {
  const fs::path directory = golden_directory() / GetParam();
  const std::vector<double> theirs = expected(directory, "losses").at(0);
  const std::vector<double> ours = losses_of(directory);
  ASSERT_EQ(ours.size(), theirs.size());
  for (std::size_t s = 0; s < ours.size(); ++s)
    EXPECT_NEAR(ours[s], theirs[s], 1e-5 * theirs[s]) << s;
}

TEST_P(HuggingFaceGolden, WritesAConfigThatSaysTheSame) {
  const fs::path file = golden_directory() / GetParam() / "config.json";
  const ModelShape shape = model::read_config_json(read_text(file), file);
  EXPECT_EQ(model::read_config_json(model::config_json(shape, "float32"), "ours"), shape);
}

TEST_P(HuggingFaceGolden, ComesBackFromAnExportInShards) {
  const fs::path directory = golden_directory() / GetParam();
  const testing::TemporaryDirectory dir;
  const fs::path out = dir.path() / "exported";

  const ExportReport report = export_model(directory, out, {.shard_bytes = 4000});

  EXPECT_TRUE(fs::exists(out / "model.safetensors.index.json"));
  EXPECT_FALSE(fs::exists(out / "model.safetensors"));
  EXPECT_GT(report.bytes, 4 * report.parameters);
  EXPECT_EQ(shape_in(out), shape_in(directory));
  EXPECT_EQ(logits_of(out), logits_of(directory));
}

INSTANTIATE_TEST_SUITE_P(Families, HuggingFaceGolden, ::testing::ValuesIn(golden_names()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace cleave::train
