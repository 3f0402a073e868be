#include <fstream>
#include <string>

#include "app/run_cleave.h"
#include "support/paths.h"
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

// The template is "U…A….\n", and tokens are bytes.
TEST_F(ChatRun, IsAnsweredInItsTemplateUpToTheEndOfTheTurn) {
  const std::string checkpoint = trained("--set train.steps=80")["checkpoint"];
  const auto texts = [&](const std::string& asked) {
    const Answer answer = run_cleave("generate " + checkpoint + " --samples 8 --json " + asked);
    EXPECT_EQ(answer.exit, 0) << answer.err;
    return answer.exit == 0 ? Json::parse(answer.out)["texts"] : Json::array();
  };
  const std::string messages = directory_.write(
      "messages.json", R"([{"role": "user", "content": "b"}, {"role": "assistant", "content": "l"},
                           {"role": "user", "content": "aaa"}])");

  const Json chat = texts("--chat --prompt aaa");
  const Json plain = texts("--prompt UaaaA --stop .");

  ASSERT_EQ(chat.size(), 8u);
  int ended = 0;
  for (std::size_t i = 0; i < chat.size(); ++i) {
    EXPECT_EQ(chat[i]["prompt_tokens"], 5);
    EXPECT_EQ(chat[i]["prompt"], "aaa");
    EXPECT_EQ(chat[i]["tokens"], plain[i]["tokens"]);
    EXPECT_EQ(chat[i]["text"], plain[i]["text"]);
    ended += chat[i]["stopped"] == "end";
  }
  EXPECT_GT(ended, 0) << chat.dump();
  EXPECT_EQ(texts("--messages " + messages)[0]["prompt_tokens"], 11) << "Ub Al. Uaaa A";
}

TEST_F(ChatRun, IsExportedWithItsTemplateAndTheEndOfATurn) {
  const std::string exported = directory_.path("exported");
  const std::string checkpoint =
      trained("--set data.template=chatml --set model.vocab=600 --set data.tokenizer=" +
              testing::source_path("tests/golden/tokenizer/qwen2.json"))["checkpoint"];
  ASSERT_EQ(run_cleave("export " + checkpoint + " " + exported).exit, 0);

  for (const std::string& saved : {checkpoint, exported}) {
    std::ifstream tokenizer(saved + "/tokenizer_config.json");
    std::ifstream generation(saved + "/generation_config.json");
    const Json config = Json::parse(tokenizer);
    EXPECT_EQ(config["eos_token"], "<|im_end|>") << saved;
    EXPECT_NE(config["chat_template"].get<std::string>().find("<|im_start|>user"),
              std::string::npos);
    EXPECT_EQ(Json::parse(generation)["eos_token_id"], Json::array({2, 0})) << saved;
  }
}

TEST_F(ChatRun, SaysWhatIsWrongWithAConversation) {
  const std::string checkpoint = trained("")["checkpoint"];
  const auto complaint = [&](const std::string& flags) {
    const Answer answer = run_cleave("generate " + checkpoint + " " + flags);
    EXPECT_EQ(answer.exit, 2) << flags;
    return answer.err;
  };
  const std::string talk = directory_.write("own.json", R"({"messages": [{"role": "user"}]})");

  EXPECT_EQ(complaint("--chat"),
            "cleave: --chat answers nothing; pass --prompt with what a user says\n");
  EXPECT_EQ(complaint("--system S --prompt a"), "cleave: --system is for --chat; pass both\n");
  EXPECT_EQ(complaint("--messages " + talk),
            "cleave: " + talk + " has a message without \"content\"\n");
  EXPECT_EQ(complaint("--messages " + talk + " --prompt a"),
            "cleave: --messages has the whole conversation; leave out --chat, --prompt and "
            "--prompt-file\n");
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
