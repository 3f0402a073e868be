#include <cmath>
#include <filesystem>
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
using Json = nlohmann::json;

/// Text without a pattern that a few steps could learn.
std::string text_of(int size, unsigned seed) {
  std::string text;
  for (int i = 0; i < size; ++i) {
    seed = seed * 1664525u + 1013904223u;
    text += static_cast<char>('a' + (seed >> 24) % 26);
  }
  return text;
}

/// A tiny model after a few steps, which knows four tensor shards, and held-out text of whole
/// microbatches.
class EvaluateCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string config = directory_.write(
        "run.toml",
        "[model]\nkind = \"llama\"\nlayers = 4\nhidden = 32\nheads = 4\nkv_heads = 2\nvocab = 256\n"
        "context = 32\n[data]\npath = \"" +
            directory_.write("data.txt", text_of(3000, 1)) + "\"\nvalidation = \"" + held_out_ +
            "\"\n[train]\nsteps = 3\nbatch = 4\nmicrobatch = 2\nsequence = 16\nlr = 0.02\nout = "
            "\"" +
            out_ + "\"\n[numerics]\ntensor_shards = 4\n");
    const Answer trained = run_cleave("train " + config + " --json");
    ASSERT_EQ(trained.exit, 0) << trained.err;
    validation_loss_ = Json::parse(trained.out)["validation_loss"];
  }

  Answer evaluate(const std::string& data, const std::string& arguments = "") const {
    return run_cleave("evaluate " + out_ + " --data " + data + " " + arguments);
  }
  Json json(const std::string& data, const std::string& arguments = "") const {
    const Answer answer = evaluate(data, arguments + " --json");
    EXPECT_EQ(answer.exit, 0) << answer.err;
    return answer.exit == 0 ? Json::parse(answer.out) : Json();
  }

  TemporaryDirectory directory_;
  std::string out_ = directory_.path("out");
  std::string held_out_ = directory_.write("held_out.txt", text_of(16 * 2 * 5 + 1, 2));
  double validation_loss_ = 0;
};

TEST_F(EvaluateCommand, FindsTheBitsOfTheRunsOwnValidation) {
  const Json found = json(held_out_);
  EXPECT_EQ(found["loss"], validation_loss_);
  EXPECT_EQ(found["tokens"], 160);
  EXPECT_EQ(found["sequences"], 10);
  EXPECT_EQ(found["step"], 3);
  EXPECT_EQ(found["perplexity"], std::exp(validation_loss_));
  EXPECT_EQ(found["bytes_per_token"], 1);
  EXPECT_EQ(found["devices"][0]["planned_bytes"], found["devices"][0]["peak_bytes"]);
}

TEST_F(EvaluateCommand, GivesTheSameBitsInEveryLayoutOfTheGrid) {
  const std::string data = directory_.write("odd.txt", text_of(16 * 2 * 7 + 12, 3));
  const Json one = json(data);
  for (const std::string layout :
       {"--devices 2", "--devices 3 --threads 2", "--set parallel.data=2",
        "--set parallel.data=3 --set parallel.zero=3", "--set parallel.tensor=2",
        "--set parallel.tensor=4 --set parallel.sequence_parallel=true",
        "--set parallel.pipeline=2 --set parallel.tensor=2 --set parallel.data=2"}) {
    const Json other = json(data, layout);
    EXPECT_EQ(other["loss"], one["loss"]) << layout;
    EXPECT_EQ(other["tokens"], one["tokens"]) << layout;
    for (const Json& device : other["devices"])
      EXPECT_EQ(device["planned_bytes"], device["peak_bytes"]) << layout;
  }
}

TEST_F(EvaluateCommand, CountsAllOfTheDataAndNoneOfWhatFillsItUp) {
  // Two microbatches, one more sequence, and ten tokens; none of these sees what is before it.
  const std::string text = text_of(16 * 5 + 11, 4);
  const Json all = json(directory_.write("all.txt", text));
  EXPECT_EQ(all["tokens"], 90);
  EXPECT_EQ(all["sequences"], 6);
  double sum = 0;
  for (int first = 0; first < 90; first += 16) {
    const Json part = json(directory_.write("part.txt", text.substr(first, 17)));
    sum += part["loss"].get<double>() * part["tokens"].get<double>();
  }
  // Sums of f64 in another order.
  EXPECT_NEAR(all["loss"].get<double>(), sum / 90, 1e-12);
}

TEST_F(EvaluateCommand, TakesLessMemoryThanTraining) {
  const Answer plan = run_cleave("plan " + directory_.path("run.toml") + " --json");
  ASSERT_EQ(plan.exit, 0) << plan.err;
  const Json found = json(held_out_);
  EXPECT_LT(found["devices"][0]["planned_bytes"].get<double>(),
            0.5 * Json::parse(plan.out)["planned_bytes"][0].get<double>());
  EXPECT_EQ(evaluate(held_out_, "--set devices.memory=16KiB").exit, 3);
}

TEST_F(EvaluateCommand, SaysWhatToExpect) {
  const Answer answer = evaluate(held_out_);
  EXPECT_EQ(answer.exit, 0);
  EXPECT_NE(answer.out.find("160 tokens in 10 sequences of 16, 1.00 bytes per token"),
            std::string::npos)
      << answer.out;
}

TEST_F(EvaluateCommand, RefusesWhatItCannotDo) {
  const auto expect_refused = [&](const Answer& answer, const std::string& sentence) {
    EXPECT_EQ(answer.exit, 2);
    EXPECT_NE(answer.err.find(sentence), std::string::npos) << answer.err;
  };
  expect_refused(evaluate(directory_.path("none.txt")), "--data " + directory_.path("none.txt"));
  expect_refused(evaluate(held_out_, "--sequence 64"),
                 "train.sequence 64 is longer than model.context 32");
  expect_refused(evaluate(directory_.write("short.txt", "a")), "has one token");
  expect_refused(evaluate(held_out_, "--devices 9"), "9 stages need");
  expect_refused(evaluate(held_out_, "--set parallel.pipeline=auto --devices 2"),
                 "\"auto\" is for training");
  const std::filesystem::path latest = out_ + "/checkpoints/latest";
  std::filesystem::resize_file(latest / "model.safetensors", 1000);
  const Answer truncated = evaluate(held_out_);
  expect_refused(truncated, "model.safetensors has 1000 bytes instead of ");
  EXPECT_EQ(truncated.err.find("; use another checkpoint"),
            truncated.err.rfind("; use another checkpoint"))
      << truncated.err;
}

}  // namespace
}  // namespace cleave
