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

struct Conversations {
  std::string lines;
  int bytes = 0;  ///< of their text: "U…A….\n" each
};

/// Conversations of all lengths, so that the sequences of a batch have different shares to learn.
Conversations conversations(int count) {
  Conversations made;
  for (int i = 0; i < count; ++i) {
    const std::string asked(static_cast<std::size_t>(1 + i * 5 % 17),
                            static_cast<char>('a' + i % 7));
    const std::string said(static_cast<std::size_t>(1 + i * 11 % 13),
                           static_cast<char>('k' + i % 9));
    const Json user = {{"role", "user"}, {"content", asked}};
    const Json assistant = {{"role", "assistant"}, {"content", said}};
    made.lines += Json({{"messages", {user, assistant}}}).dump() + "\n";
    made.bytes += static_cast<int>(asked.size() + said.size()) + 4;
  }
  return made;
}

class ChatRun : public ::testing::Test {
 protected:
  Json trained(const std::string& arguments) {
    const std::string out = directory_.path("out" + std::to_string(runs_++));
    const Answer answer =
        run_cleave("train " + config_ + " --set train.out=" + out + " " + arguments + " --json");
    EXPECT_EQ(answer.exit, 0) << answer.err;
    return answer.exit == 0 ? Json::parse(answer.out) : Json();
  }

  TemporaryDirectory directory_;
  int runs_ = 0;
  std::string talk_ = directory_.write("talk.jsonl", conversations(60).lines);
  std::string config_ = directory_.write(
      "run.toml",
      "[model]\nkind = \"llama\"\nlayers = 2\nhidden = 32\nheads = 4\nkv_heads = 2\nvocab = 256\n"
      "[data]\npath = \"" +
          talk_ + "\"\nvalidation = \"" + talk_ +
          "\"\n[data.template]\nuser = \"U{content}\"\nassistant = \"A{content}.{end}\\n\"\n"
          "[train]\nsteps = 3\nbatch = 4\nsequence = 16\nlr = 0.01\nwarmup = 0\n"
          "[numerics]\ndata_shards = 2\ntensor_shards = 2\n");
};

TEST_F(ChatRun, MasksTheLossWithTheSameBitsInEveryLayout) {
  const Json one = trained("");
  for (const std::string layout :
       {"parallel.pipeline=2", "parallel.data=2", "parallel.tensor=2",
        "parallel.data=2 --set parallel.zero=3 --set parallel.pipeline=2",
        "parallel.schedule=zb-h1 --set parallel.pipeline=2 --set parallel.recompute=full"}) {
    const Json other = trained("--set " + layout);
    EXPECT_EQ(other["weights"], one["weights"]) << layout;
    EXPECT_EQ(other["loss"], one["loss"]) << layout;
    EXPECT_EQ(other["validation_loss"], one["validation_loss"]) << layout;
  }
}

TEST_F(ChatRun, TheLossIsTheMeanOverWhatTheAssistantSays) {
  // One batch of all the data, and an update too small for any weight to change.
  const int windows = (conversations(60).bytes - 1) / 64;
  const Json run = trained(
      "--set train.steps=1 --set train.lr=1e-30 --set train.weight_decay=0 --set train.sequence=64 "
      "--set numerics.data_shards=1 --set train.batch=" +
      std::to_string(windows));
  // f32 losses summed in another order, and a scale that is rounded to f32.
  EXPECT_NEAR(run["loss"][0].get<double>(), run["validation_loss"].get<double>(), 1e-6);
  EXPECT_GT(run["loss"][0].get<double>(), 4);  // a mean over all tokens would be below
}

TEST_F(ChatRun, APackedFileTrainsAsTheConversationsDo) {
  const std::string packed = directory_.path("talk.npy");
  const Answer made =
      run_cleave("data tokenize " + talk_ + " --template chatml --out " + packed + " --json");
  ASSERT_EQ(made.exit, 0) << made.err;
  EXPECT_LT(Json::parse(made.out)["learned"], Json::parse(made.out)["tokens"]);
  const Json fresh = trained("--set data.template=chatml");
  const Json from_file = trained("--set data.path=" + packed + " --set data.validation=" + packed);
  EXPECT_EQ(from_file["weights"], fresh["weights"]);
}

}  // namespace
}  // namespace cleave
