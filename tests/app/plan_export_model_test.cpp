#include <string>
#include <utility>

#include "app/run_cleave.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace cleave {
namespace {

using testing::Answer;
using testing::run_cleave;
using Json = nlohmann::json;

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

TEST(PlanExportJson, IsOneObjectWithWhatTheTextSays) {
  const auto asked = [](const std::string& system, const std::string& flags) {
    const Answer answer = run_cleave(
        "plan --model llama3-8b --cluster h100:64 --batch 512 --layout "
        "pp=2,microbatch=1,zero=1,recompute=full --export " +
        system + flags);
    EXPECT_EQ(answer.exit, 0) << answer.err;
    return answer.out;
  };
  for (const std::string system : kSystems) {
    const Json json = Json::parse(asked(system, " --json"));
    EXPECT_EQ(json["system"], system);
    EXPECT_EQ(json["layout"]["pp"], 2);
    EXPECT_EQ(json["layout"]["recompute"], "full");
    EXPECT_FALSE(json.contains("search"));
  }
  const Json megatron = Json::parse(asked("megatron", " --json"));
  std::string text = megatron["program"];
  for (const std::string flag : megatron["flags"]) text += " \\\n  " + flag;
  EXPECT_EQ(text + "\n", asked("megatron", ""));
  EXPECT_EQ(Json::parse(asked("torchtitan", " --json"))["config"], asked("torchtitan", ""));
  EXPECT_EQ(Json::parse(asked("deepspeed", " --json"))["config"],
            Json::parse(asked("deepspeed", "")));
}

TEST(PlanExportJson, SaysToWhatTheSearchKept) {
  const Answer answer =
      run_cleave("plan --model llama3-8b --cluster h100:64 --batch 512 --export torchtitan --json");
  ASSERT_EQ(answer.exit, 0) << answer.err;
  EXPECT_EQ(answer.err, "");
  const std::string search = Json::parse(answer.out)["search"];
  EXPECT_TRUE(search.starts_with("the search kept to what torchtitan has; tp=")) << search;
}

}  // namespace
}  // namespace cleave
