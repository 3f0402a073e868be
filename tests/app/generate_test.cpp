#include <filesystem>
#include <fstream>
#include <string>

#include "app/run_cleave.h"
#include "support/temporary_directory.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace cleave {
namespace {

using testing::Answer;
using testing::run_cleave;
using testing::TemporaryDirectory;

/// A tiny model that has learned a little of "abcabc…"; a context of 32.
class GenerateCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string text;
    for (int i = 0; i < 400; ++i) text += "abc";
    const std::string data = directory_.write("data.txt", text);
    const std::string config = directory_.write(
        "run.toml",
        "[model]\nkind = \"llama\"\nlayers = 1\nhidden = 32\nheads = 2\nvocab = 256\ncontext = 32\n"
        "[data]\npath = \"" +
            data +
            "\"\n"
            "[train]\nsteps = 40\nbatch = 4\nmicrobatch = 4\nsequence = 32\nlr = 0.02\nout = \"" +
            out_ + "\"\n");
    const Answer trained = run_cleave("train " + config);
    ASSERT_EQ(trained.exit, 0) << trained.err;
  }

  Answer generate(const std::string& arguments) const {
    return run_cleave("generate " + out_ + " " + arguments);
  }

  TemporaryDirectory directory_;
  std::string out_ = directory_.path("out");
};

TEST_F(GenerateCommand, ContinuesWhatTheModelHasLearned) {
  const Answer answer = generate("--prompt abcab --tokens 9 --temperature 0");
  EXPECT_EQ(answer.exit, 0) << answer.err;
  EXPECT_EQ(answer.out, "abcabcabcabcab\n");

  const auto json =
      nlohmann::json::parse(generate("--prompt abcab --tokens 9 --temperature 0 --json").out);
  EXPECT_EQ(json["text"], "cabcabcab");
  EXPECT_EQ(json["stopped"], "tokens");
  EXPECT_EQ(json["devices"][0]["peak_bytes"], json["devices"][0]["planned_bytes"]);
}

TEST_F(GenerateCommand, EndsBeforeAStopString) {
  const Answer answer = generate("--prompt abcab --tokens 9 --temperature 0 --stop bca --stop xyz");
  EXPECT_EQ(answer.out, "abcabca\n") << answer.err;

  const auto json = nlohmann::json::parse(
      generate("--prompt abcab --tokens 9 --temperature 0 --stop bca --json").out);
  EXPECT_EQ(json["text"], "ca");
  EXPECT_EQ(json["stopped"], "stop");
}

TEST_F(GenerateCommand, TakesSeveralPromptsAndSamples) {
  const std::string file = directory_.write("prompt.txt", "bcabc");
  const auto json = nlohmann::json::parse(
      generate("--prompt abcab --prompt-file " + file + " --tokens 3 --temperature 0 --json").out);
  EXPECT_EQ(json["texts"][0]["text"], "cab");
  EXPECT_EQ(json["texts"][1]["text"], "abc");

  const std::string wild = "--prompt abc --tokens 20 --temperature 3 --json";
  const auto one = nlohmann::json::parse(generate(wild).out);
  const auto two = nlohmann::json::parse(generate(wild + " --samples 2 --devices 2").out);
  EXPECT_EQ(two["texts"][0]["tokens"], one["tokens"]);
  EXPECT_NE(two["texts"][1]["tokens"], one["tokens"]);
}

TEST_F(GenerateCommand, GivesTheSameTextForASeed) {
  const std::string wild = "--tokens 20 --temperature 3 --seed ";
  EXPECT_EQ(generate(wild + "7").out, generate(wild + "7").out);
  EXPECT_NE(generate(wild + "7").out, generate(wild + "8").out);
}

TEST_F(GenerateCommand, SharesBetweenDevicesWhatFitsOnNone) {
  const std::string wild = "--prompt abc --tokens 20 --temperature 3 --json";
  const auto alone = nlohmann::json::parse(generate(wild).out);
  const auto whole = alone["devices"][0]["planned_bytes"].get<std::int64_t>();
  const std::string less = " --memory " + std::to_string(whole - 1) + "B";

  const Answer refused = generate(wild + less);
  EXPECT_EQ(refused.exit, 3);
  EXPECT_NE(refused.err.find("(" + std::to_string(whole) + " bytes) on device 0, which has "),
            std::string::npos)
      << refused.err;
  for (const char* devices : {"2", "3"}) {
    const auto shared = nlohmann::json::parse(generate(wild + less + " --devices " + devices).out);
    EXPECT_EQ(shared["tokens"], alone["tokens"]);
    EXPECT_EQ(shared["devices"].size(), std::stoul(devices));
    for (const auto& device : shared["devices"]) {
      EXPECT_LT(device["planned_bytes"], whole);
      EXPECT_EQ(device["peak_bytes"], device["planned_bytes"]);
    }
  }
}

TEST_F(GenerateCommand, StopsWhereTheContextEnds) {
  const Answer answer = generate("--prompt abcab --tokens 100");
  EXPECT_EQ(answer.exit, 0);
  EXPECT_NE(answer.err.find("stopped 72 tokens early: the model's context of 32 is full"),
            std::string::npos)
      << answer.err;
}

TEST_F(GenerateCommand, SaysWhatIsWrong) {
  const auto complaint = [&](const std::string& arguments, int exit) {
    const Answer answer = generate(arguments);
    EXPECT_EQ(answer.exit, exit) << arguments;
    EXPECT_EQ(answer.out, "");
    return answer.err;
  };
  EXPECT_EQ(complaint("--temperature -0.5", 2),
            "cleave: --temperature -0.5 must be 0 (always the likeliest token) or more\n");
  EXPECT_EQ(complaint("--top-k -1", 2), "cleave: --top-k -1 must be 0 (all tokens) or more\n");
  EXPECT_EQ(complaint("--top-p 0", 2),
            "cleave: --top-p 0 must be above 0 and at most 1 (all tokens)\n");
  EXPECT_EQ(
      complaint("--prompt " + std::string(33, 'a'), 2),
      "cleave: the prompt has 33 tokens, and the model's context is 32; shorten the prompt\n");
  for (const char* devices : {"1", "2"}) {
    const std::string tight = complaint(std::string("--memory 1KiB --devices ") + devices, 3);
    EXPECT_TRUE(tight.starts_with("cleave: generating up to 32 tokens needs")) << tight;
    EXPECT_NE(tight.find("on device 0, which has 1.00 KiB (1024 bytes); "), std::string::npos);
  }
  EXPECT_EQ(complaint("--devices 0", 2), "cleave: --devices 0 must be at least 1\n");

  // One bit of a weight.
  const std::string model = out_ + "/checkpoints/latest/model.safetensors";
  std::fstream file(model, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(-1, std::ios::end);
  const char last = static_cast<char>(file.get());
  file.seekp(-1, std::ios::end);
  file.put(static_cast<char>(last ^ 1));
  file.close();
  EXPECT_NE(complaint("", 2).find("with a wrong checksum; use another checkpoint"),
            std::string::npos);
}

TEST_F(GenerateCommand, NeedsACheckpoint) {
  std::filesystem::create_directory(directory_.path("empty"));
  const Answer answer = run_cleave("generate " + directory_.path("empty"));
  EXPECT_EQ(answer.exit, 2);
  EXPECT_EQ(answer.err, "cleave: there is no checkpoint in " + directory_.path("empty") +
                            "; give a step-… directory, the out directory of a run, or a Hugging "
                            "Face directory\n");
}

}  // namespace
}  // namespace cleave
