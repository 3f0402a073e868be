// Small trainings whose weights every processor with fused multiply-add must end with: x86 with
// AVX2 or AVX-512, ARM with NEON, and one lane at a time.

#include "support/tiny_model.h"
#include <gtest/gtest.h>

#include "cleave/comm/local/local_world.h"
#include "cleave/engine/compile/compile.h"
#include "cleave/engine/run/device.h"
#include "cleave/ops/instruction_set.h"
#include "cleave/train/step/run_optimizer.h"

namespace cleave::train {
namespace {

constexpr int kGoldenSteps = 6;
constexpr int kGoldenMicrobatches = 2;
constexpr std::int64_t kLength = 80;  // more keys than a sum has slots
constexpr std::int64_t kTokens = 131;

struct Golden {
  std::string name;
  const model::Family* kind;
  DType dtype;
  std::string weights;
};

// A change of these is a change of every result that anybody has: it needs a decision record.
std::vector<Golden> golden() {
  return {{"gpt_f32", &model::gpt, DType::F32, "83b5cba31219b1f3"},
          {"gpt_bf16", &model::gpt, DType::BF16, "a29847e811821094"},
          {"llama_f32", &model::llama, DType::F32, "eba520d56837e475"},
          {"llama_bf16", &model::llama, DType::BF16, "61a40110c04f40b2"}};
}

Graph model_of(const Golden& one) {
  const bool llama = one.kind == &model::llama;
  return model::graph_of({.kind = one.kind,
                          .layers = 2,
                          .hidden = 96,
                          .heads = 4,
                          .kv_heads = llama ? 2 : 4,
                          .ffn = 200,
                          .vocab = kTokens,
                          .context = kLength,
                          .tie_embeddings = !llama},
                         {.sequences = 2, .sequence = kLength, .dtype = one.dtype});
}

std::string weights_after_training(const Golden& one) {
  // One thread: more would change no bit, and wait for each other on a busy machine.
  const engine::CompiledStep step = engine::compile(
      model_of(one),
      {.microbatches = kGoldenMicrobatches, .threads = 1, .arithmetic = ops::Arithmetic::Exact});
  std::string weights;
  comm::run_devices(1, [&](comm::Communicator& world) {
    engine::Device device(step, 0, 1, world);
    device.initialise(7);
    RunOptimizer optimizer({.steps = kGoldenSteps, .lr = 1e-2, .warmup = 2});
    for (int s = 0; s < kGoldenSteps; ++s) {
      RandomSource source(static_cast<std::uint64_t>(s), kTokens);
      optimizer.begin_step(s);
      device.executor().run({.source = &source,
                             .optimizer = &optimizer,
                             .loss_scale = 1.0f / (kGoldenMicrobatches * 2 * kLength)});
    }
    weights = engine::combine_hashes(device.weight_hashes());
  });
  return weights;
}

class GoldenWeights : public ::testing::TestWithParam<Golden> {};

TEST_P(GoldenWeights, AreThoseOfEveryProcessorWithFusedMultiplyAdd) {
  const std::string weights = weights_after_training(GetParam());
  if (ops::instruction_set().fused) {
    EXPECT_EQ(weights, GetParam().weights);
  } else {
    EXPECT_NE(weights, GetParam().weights) << "a processor that cannot be exact was";
  }
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenWeights, ::testing::ValuesIn(golden()),
                         [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace cleave::train
