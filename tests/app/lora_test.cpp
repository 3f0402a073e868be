#include <filesystem>
#include <fstream>
#include <string>

#include "app/run_cleave.h"
#include "support/temporary_directory.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace cleave {
namespace {

namespace fs = std::filesystem;
using testing::Answer;
using testing::run_cleave;
using testing::TemporaryDirectory;
using Json = nlohmann::json;

/// A base model after a few steps, and runs that train adapters for it.
class LoraRun : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string text;
    for (int i = 0; i < 150; ++i)
      text += "the quick brown fox number " + std::to_string(i * 7) + " ";
    data_ = directory_.write("data.txt", text);
    config_ = directory_.write(
        "run.toml",
        "[model]\nkind = \"llama\"\nlayers = 2\nhidden = 32\nheads = 4\nkv_heads = 2\nvocab = 256\n"
        "[data]\npath = \"" +
            data_ +
            "\"\nvalidation = 0.0\n[train]\nsteps = 4\nbatch = 4\nsequence = 16\nlr = 0.01\n" +
            "schedule = \"constant\"\nwarmup = 0\nout = \"" + base_ + "\"\n");
    const Answer trained = run_cleave("train " + config_);
    ASSERT_EQ(trained.exit, 0) << trained.err;
  }

  /// Trains adapters into `out`.
  Answer tune(const std::string& out, const std::string& arguments) const {
    return run_cleave("train " + config_ + " --set train.out=" + directory_.path(out) + " " +
                      arguments + " --json");
  }
  Json tuned(const std::string& out, const std::string& arguments) const {
    const Answer answer = tune(out, arguments);
    EXPECT_EQ(answer.exit, 0) << answer.err;
    return answer.exit == 0 ? Json::parse(answer.out) : Json();
  }
  double loss_of(const std::string& out) const {
    const Answer answer =
        run_cleave("evaluate " + directory_.path(out) + " --data " + data_ + " --json");
    EXPECT_EQ(answer.exit, 0) << answer.err;
    return answer.exit == 0 ? Json::parse(answer.out)["loss"].get<double>() : 0;
  }
  fs::path adapter(const std::string& out) const {
    return fs::path(directory_.path(out)) / "checkpoints" / "latest" / "adapter";
  }

  TemporaryDirectory directory_;
  std::string base_ = directory_.path("base");
  std::string data_;
  std::string config_;
  std::string lora_ = "--init-from " + base_ +
                      " --set lora.rank=2 --set lora.alpha=4 --set 'lora.targets="
                      "[\"q_proj\", \"down_proj\"]'";
};

TEST_F(LoraRun, ResumesInAnotherLayoutWithTheSameBits) {
  const Json whole = tuned("whole", lora_);
  tuned("parts", lora_ + " --set train.steps=2");
  const std::string shape =
      " --set lora.rank=2 --set lora.alpha=4 --set 'lora.targets=[\"q_proj\", \"down_proj\"]'";
  const Json parts = tuned("parts", "--resume --set parallel.pipeline=2" + shape);
  EXPECT_EQ(parts["weights"], whole["weights"]);
  EXPECT_LT(loss_of("whole"), loss_of("base"));

  const Answer other = tune("parts", "--resume --set lora.rank=3");
  EXPECT_EQ(other.exit, 2);
  EXPECT_NE(other.err.find("lora.rank is 3, but"), std::string::npos) << other.err;
}

TEST_F(LoraRun, SavesAndLoadsAdaptersAsPeftHasThem) {
  tuned("one", lora_);
  std::ifstream file(adapter("one") / "adapter_config.json");
  const Json saved = Json::parse(file);
  EXPECT_EQ(saved["peft_type"], "LORA");
  EXPECT_EQ(saved["r"], 2);
  EXPECT_EQ(saved["lora_alpha"], 4);
  EXPECT_EQ(saved["target_modules"], (Json::array({"down_proj", "q_proj"})));
  EXPECT_EQ(saved["fan_in_fan_out"], false);

  // The base and the saved adapters, not trained further, are the model that was saved.
  tuned("two", "--init-from " + base_ + " --set lora.from=" + adapter("one").string() +
                   " --set train.steps=0");
  EXPECT_EQ(loss_of("two"), loss_of("one"));

  const Answer refused =
      tune("three", "--init-from " + base_ + " --set lora.from=" + adapter("one").string() +
                        " --set lora.targets=q_proj");
  EXPECT_EQ(refused.exit, 2);
  EXPECT_NE(refused.err.find("down_proj.lora_A.weight\", and the model has no such adapter"),
            std::string::npos)
      << refused.err;
}

TEST_F(LoraRun, SavesWithAdaptersWhatOpensThemAlone) {
  const std::string exported = directory_.path("exported");
  ASSERT_EQ(run_cleave("export " + base_ + " " + exported).exit, 0);
  const std::string lora =
      "[model]\nfrom = \"" + exported + "\"\n[data]\npath = \"" + data_ +
      "\"\n[train]\nsteps = 1\nbatch = 4\nsequence = 16\nwarmup = 0\n[lora]\nrank = 2\n";
  config_ = directory_.write("lora.toml", lora);
  const auto saved = [&](const std::string& out) {
    std::ifstream file(adapter(out) / "adapter_config.json");
    return Json::parse(file);
  };

  tuned("whole", "");
  tuned("more", "--set model.train=norm");

  EXPECT_EQ(saved("whole")["base_model_name_or_path"], exported);
  EXPECT_TRUE(saved("more")["base_model_name_or_path"].is_null()) << "norms are not in the base";
  for (const char* name : {"tokenizer.json", "tokenizer_config.json"})
    EXPECT_TRUE(fs::exists(adapter("whole") / name)) << name;
  EXPECT_FALSE(fs::exists(adapter("whole") / "config.json"));
}

TEST_F(LoraRun, GeneratesWithAdaptersMerged) {
  tuned("tuned", lora_ + " --set train.steps=40 --set train.lr=0.05");
  const auto text_of = [&](const std::string& out) {
    const Answer answer = run_cleave("generate " + directory_.path(out) +
                                     " --prompt 'the qu' --tokens 6 --temperature 0 --json");
    EXPECT_EQ(answer.exit, 0) << answer.err;
    return answer.exit == 0 ? Json::parse(answer.out)["text"].get<std::string>() : "";
  };
  EXPECT_NE(text_of("tuned"), text_of("base"));
}

TEST_F(LoraRun, ExportsAdaptersMerged) {
  tuned("tuned", lora_);
  const std::string exported = directory_.path("merged");
  const Answer refused = run_cleave("export " + directory_.path("tuned") + " " + exported);
  EXPECT_EQ(refused.exit, 2);
  EXPECT_NE(refused.err.find("has adapters; pass --merge"), std::string::npos) << refused.err;
  const Answer merged =
      run_cleave("export " + directory_.path("tuned") + " " + exported + " --merge");
  ASSERT_EQ(merged.exit, 0) << merged.err;
  const Answer found = run_cleave("evaluate " + exported + " --data " + data_ +
                                  " --sequence 16 --set data.tokenizer=bytes --json");
  ASSERT_EQ(found.exit, 0) << found.err;
  // The sums of a product with W + B · A are rounded otherwise than those of two products.
  EXPECT_NEAR(Json::parse(found.out)["loss"].get<double>(), loss_of("tuned"), 1e-5);
}

TEST_F(LoraRun, RefusesWhatItCannotDo) {
  const auto expect_refused = [&](const std::string& arguments, const std::string& sentence) {
    const Answer answer = tune("refused", arguments);
    EXPECT_EQ(answer.exit, 2);
    EXPECT_NE(answer.err.find(sentence), std::string::npos) << answer.err;
  };
  expect_refused("--set lora.alpha=4", "lora.alpha is given without lora.rank");
  expect_refused("--set lora.rank=2 --set lora.targets=c_attn",
                 "lora.targets names \"c_attn\", and no linear layer is called so");
  expect_refused("--set lora.from=" + directory_.path("none"), "has no adapter_config.json");
  const std::string other =
      fs::path(directory_.write("peft/adapter_config.json",
                                "{\"peft_type\": \"LORA\", \"use_dora\": true}"))
          .parent_path()
          .string();
  expect_refused("--set lora.from=" + other, "\"use_dora\": true, which cleave does not do");
}

}  // namespace
}  // namespace cleave
