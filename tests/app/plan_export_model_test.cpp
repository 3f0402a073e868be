#include <string>
#include <utility>

#include "app/run_cleave.h"
#include <gtest/gtest.h>

namespace cleave {
namespace {

using testing::Answer;
using testing::run_cleave;

constexpr const char* kSystems[] = {"megatron", "torchtitan", "deepspeed"};

/// The flags of a model on eight replicas.
std::string megatron_flags(const std::string& model) {
  const Answer answer = run_cleave("plan --model " + model +
                                   " --cluster h100:8 --batch 64 --layout dp=8 --export megatron");
  EXPECT_EQ(answer.exit, 0) << model << ": " << answer.err;
  return answer.out;
}

TEST(PlanExportModel, IsToldToMegatronInEveryPart) {
  for (const auto& [model, flag] : {
           std::pair("llama-160m", "--norm-epsilon 1e-06 "),
           {"llama-160m", "--rotary-base 10000 "},
           {"llama-160m", "--kv-channels 64 "},
           {"llama-160m", "--ffn-hidden-size 3072 "},
           {"llama-160m", "--normalization RMSNorm "},
           {"llama-160m", "--untie-embeddings-and-output-weights "},
           {"llama-160m", "--attention-dropout 0 "},
           {"llama-1b", "--norm-epsilon 1e-05 "},
           {"llama-1b", "--num-query-groups 4 "},
           {"gpt2-124m", "--kv-channels 64 "},
           {"kind=qwen2,layers=4,hidden=512,heads=8", "--add-qkv-bias "},
           {"kind=qwen3,layers=4,hidden=512,heads=8", "--qk-layernorm "},
       }) {
    const std::string flags = megatron_flags(model);
    EXPECT_NE(flags.find(flag), std::string::npos) << flag << "in\n" << flags;
  }
  const std::string gpt = megatron_flags("gpt2-124m");
  for (const char* absent : {"--swiglu", "RMSNorm", "rope", "--rotary-base", "--untie", "--qk-"})
    EXPECT_EQ(gpt.find(absent), std::string::npos) << absent;
}

TEST(PlanExportModel, IsRefusedWhereTheOtherSystemIsNotToldAllOfIt) {
  for (const std::string system : kSystems) {
    const auto refusal = [&](const std::string& asked) {
      const Answer answer = run_cleave("plan " + asked + " --export " + system);
      EXPECT_EQ(answer.exit, 2) << asked;
      EXPECT_EQ(answer.out, "") << asked;
      return answer.err;
    };
    EXPECT_NE(
        refusal("--model preset=llava-1.5-7b,sequence=2048 --cluster a100-80gb:16 --batch 128")
            .find(" has no export for models that read images, such as vlm"),
        std::string::npos);
    EXPECT_NE(refusal("--model clip-vit-b-32 --cluster h100:8 --batch 64")
                  .find(" has no export for models that read images, such as clip"),
              std::string::npos);
    EXPECT_NE(refusal("--model gpt-tiny --train transformer.h.0 --cluster h100:8 --batch 64")
                  .find(" has no flag or key for what --train says"),
              std::string::npos);
  }
  for (const std::string kind : {"gemma3", "olmo2"}) {
    const Answer answer = run_cleave("plan --model kind=" + kind +
                                     ",layers=4,hidden=512,heads=8 --cluster h100:8 --batch 64 "
                                     "--export megatron");
    EXPECT_EQ(answer.exit, 2);
    EXPECT_NE(answer.err.find("pretrain_gpt.py has no models of kind " + kind), std::string::npos)
        << answer.err;
  }
}

}  // namespace
}  // namespace cleave
