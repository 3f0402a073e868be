// Ten steps of adapters against PEFT: same weights, same tokens, same optimizer. The numbers and
// the adapters that PEFT saved are in tests/golden/peft*, made by scripts/make_peft_golden.py.

#include "train/torch_formulas.h"
#include <gtest/gtest.h>

#include "cleave/checkpoint/adapter.h"
#include "cleave/spec/trainable.h"

namespace cleave::train {
namespace {

using testing::as_in_torch;
using testing::formula_losses;
using testing::formula_model;
using testing::golden_rows;
using testing::kFormulaSteps;

Graph adapted(const model::Family* kind, const Lora& lora) {
  Graph model = formula_model(kind, DType::F32);
  freeze(model.segments);
  add_adapters(model, lora);
  return model;
}

std::string saved_by_peft(const model::Family* kind) {
  return testing::source_path("tests/golden/peft/" + std::string(kind->name));
}

TEST(PeftGolden, TenStepsGiveTheLossesAndAdaptersOfPeft) {
  const auto expected = golden_rows("peft_losses.txt", 2);
  ASSERT_EQ(expected.size(), 4);
  for (const model::Family* kind : {&model::gpt, &model::llama}) {
    Lora lora = checkpoint::read_adapter_config(saved_by_peft(kind));
    for (const bool rslora : {false, true}) {
      lora.rslora = rslora;
      const std::string row = std::string(kind->name) + (rslora ? " rslora" : " lora");
      std::vector<double> theirs = expected.at(row);
      const checkpoint::AdapterReader saved(saved_by_peft(kind));
      const std::vector<double> ours =
          formula_losses(adapted(kind, lora), as_in_torch(), [&](engine::Device& device) {
            if (rslora) return;
            for (const engine::TensorState& tensor : device.tensors()) {
              if (!is_adapter(tensor.name)) continue;
              std::vector<float> wanted(static_cast<std::size_t>(tensor.elements()));
              saved.read(tensor.name, 0, wanted);
              // Weights below 1 after ten updates of at most 0.01, each of which may differ by what
              // AdamW makes of a gradient near zero.
              tensor.for_each_weight_run([&](std::int64_t first, std::span<float> run) {
                for (std::size_t i = 0; i < run.size(); ++i)
                  ASSERT_NEAR(run[i], wanted[static_cast<std::size_t>(first) + i], 1e-3)
                      << tensor.name;
              });
            }
          });
      for (int s = 0; s < kFormulaSteps; ++s)
        EXPECT_NEAR(ours[s], theirs.at(static_cast<std::size_t>(s)), 1e-5 * theirs[s])
            << row << ", step " << s;
    }
  }
}

}  // namespace
}  // namespace cleave::train
