// Ten steps against PyTorch: same weights, same tokens, same optimizer. The numbers are in
// tests/golden/torch_*.txt, made by scripts/make_torch_golden.py.

#include "train/torch_formulas.h"
#include <gtest/gtest.h>

namespace cleave::train {
namespace {

using testing::as_in_torch;
using testing::formula_losses;
using testing::formula_model;
using testing::golden_rows;
using testing::kFormulaSteps;

TEST(TorchGolden, TenStepsGiveTheLossesOfPyTorch) {
  const auto expected = golden_rows("torch_losses.txt", 2);
  ASSERT_EQ(expected.size(), 4);
  for (const model::Family* kind : {&model::gpt, &model::llama}) {
    for (DType dtype : {DType::F32, DType::BF16}) {
      const std::string row = std::string(kind->name) + " " + std::string(to_string(dtype));
      const std::vector<double> ours = formula_losses(formula_model(kind, dtype), as_in_torch());
      ASSERT_EQ(expected.at(row).size(), ours.size());
      const double tolerance = dtype == DType::F32 ? 1e-5 : 2e-2;  // what we promise
      for (int s = 0; s < kFormulaSteps; ++s) {
        const double theirs = expected.at(row)[s];
        EXPECT_NEAR(ours[s], theirs, tolerance * theirs) << row << ", step " << s;
      }
    }
  }
}

TEST(TorchGolden, OtherOptimizersAndLearningRatesGiveTheLossesOfPyTorch) {
  const auto expected = golden_rows("torch_optimizers.txt", 3);
  ASSERT_EQ(expected.size(), 8);
  for (const model::Family* kind : {&model::gpt, &model::llama}) {
    for (const auto& [optimizer, schedule] :
         {std::pair{"adamw", "linear"}, {"sgd", "constant"}, {"lion", "wsd"}, {"muon", "linear"}}) {
      const std::string row = std::string(kind->name) + " " + optimizer + " " + schedule;
      TrainConfig train = as_in_torch();
      train.optimizer = optimizer;
      train.schedule = schedule;
      if (train.optimizer != "lion") train.momentum = 0.9;
      const std::vector<double> ours = formula_losses(formula_model(kind, DType::F32), train);
      for (int s = 0; s < kFormulaSteps; ++s) {
        const double theirs = expected.at(row).at(static_cast<std::size_t>(s));
        EXPECT_NEAR(ours[s], theirs, 1e-5 * theirs) << row << ", step " << s;
      }
    }
  }
}

}  // namespace
}  // namespace cleave::train
