// What a checkpoint says of a tokenizer that came without a tokenizer_config.json.

#include <algorithm>
#include <filesystem>
#include <string>

#include "support/paths.h"
#include "support/temporary_directory.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cleave/base/file.h"
#include "cleave/data/chat_jinja.h"
#include "cleave/train/config/config.h"
#include "cleave/train/save/model_files.h"

namespace cleave::train {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr const char* kTalk =
    "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, "
    "{\"role\": \"assistant\", \"content\": \"b\"}]}\n";
constexpr const char* kPlain = "{\"text\": \"a\"}\n";

/// The out directory of a run whose tokenizer has turns: <|endoftext|>, <|im_start|> and
/// <|im_end|>.
class TokenizerFilesTest : public ::testing::Test {
 protected:
  void SetUp() override { use("qwen2"); }

  void use(const std::string& tokenizer) {
    fs::copy_file(testing::source_path("tests/golden/tokenizer/" + tokenizer + ".json"),
                  directory_.path() / "tokenizer.json", fs::copy_options::overwrite_existing);
  }

  /// The file `name` of a checkpoint; null if it has none.
  Json file(const std::string& name, const std::string& lines, const std::string& keys = "") const {
    const std::string data = directory_.write("data.jsonl", lines);
    const Config config = parse_config(
        "[model]\nkind = \"llama\"\nlayers = 1\nhidden = 8\nheads = 2\nvocab = 9999\n"
        "[data]\npath = \"" +
            data + "\"\n" + keys,
        "run.toml");
    const auto files = model_files(config, "float32", directory_.path());
    const auto found = std::ranges::find(files, name, &ModelFile::name);
    return found == files.end() ? Json() : Json::parse(found->text);
  }
  std::int32_t id_of(const std::string& token) const {
    const Json json = Json::parse(read_text(directory_.path() / "tokenizer.json"));
    for (const Json& one : json["added_tokens"])
      if (one["content"] == token) return one["id"].get<std::int32_t>();
    return -1;
  }

  testing::TemporaryDirectory directory_;
};

TEST_F(TokenizerFilesTest, OfConversationsEndWithATurnAndHaveItsTemplate) {
  EXPECT_EQ(file("tokenizer_config.json", kTalk),
            (Json{{"tokenizer_class", "PreTrainedTokenizerFast"},
                  {"eos_token", "<|im_end|>"},
                  {"chat_template", data::jinja_of(*data::find_chat_template("chatml"))}}));
  EXPECT_EQ(file("generation_config.json", kTalk),
            (Json{{"eos_token_id", {id_of("<|im_end|>"), id_of("<|endoftext|>")}}}));
}

TEST_F(TokenizerFilesTest, OfTextEndWithADocument) {
  EXPECT_EQ(file("tokenizer_config.json", kPlain)["eos_token"], "<|endoftext|>");
  EXPECT_EQ(file("generation_config.json", kPlain),
            (Json{{"eos_token_id", {id_of("<|endoftext|>"), id_of("<|im_end|>")}}}));
  use("gpt2");
  EXPECT_EQ(file("tokenizer_config.json", kPlain),
            (Json{{"tokenizer_class", "PreTrainedTokenizerFast"}, {"eos_token", "<|endoftext|>"}}));
  EXPECT_EQ(file("generation_config.json", kPlain),
            (Json{{"eos_token_id", id_of("<|endoftext|>")}}));
}

TEST_F(TokenizerFilesTest, OfATemplateOfOnesOwnHaveIt) {
  const std::string keys =
      "[data.template]\nuser = \"U{content}\"\nassistant = \"A{content}<|im_end|>\"\n";
  const Json config = file("tokenizer_config.json", kTalk, keys);
  EXPECT_EQ(config["eos_token"], "<|im_end|>");
  EXPECT_EQ(config["chat_template"],
            data::jinja_of({.user = "U{content}", .assistant = "A{content}<|im_end|>"}));
}

TEST_F(TokenizerFilesTest, DoNotMakeASpecialTokenOfWhatShowsInTexts) {
  const std::string keys = "[data.template]\nuser = \"U{content}\"\nassistant = \"A{content};\"\n";
  EXPECT_EQ(file("tokenizer_config.json", kTalk, keys)["eos_token"], "<|endoftext|>");
}

TEST_F(TokenizerFilesTest, ThatTheTokenizerCameWithStayAsTheyAre) {
  const Json given = {{"eos_token", "<|endoftext|>"}};
  directory_.write("tokenizer_config.json", given.dump());
  directory_.write("generation_config.json", "{\"eos_token_id\": 7}");
  EXPECT_EQ(file("tokenizer_config.json", kTalk), given);
  EXPECT_EQ(file("generation_config.json", kTalk), (Json{{"eos_token_id", 7}}));
}

TEST_F(TokenizerFilesTest, LeaveATemplateInAFileOfItsOwnAlone) {
  directory_.write("chat_template.jinja", "{{ messages }}");
  EXPECT_FALSE(file("tokenizer_config.json", kTalk).contains("chat_template"));
}

}  // namespace
}  // namespace cleave::train
