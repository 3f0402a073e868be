#include "cleave/data/chat.h"

#include <algorithm>

#include "support/errors.h"
#include "support/paths.h"
#include "support/temporary_directory.h"
#include <gtest/gtest.h>

#include "cleave/base/file.h"
#include "cleave/data/chat_jinja.h"
#include "cleave/data/dataset.h"
#include "cleave/data/documents.h"
#include "cleave/data/token_writer.h"
#include "cleave/data/tokenize.h"
#include "cleave/data/tokenizer/train_bpe.h"

namespace cleave::data {
namespace {

using testing::TemporaryDirectory;
using testing::user_error;

const std::vector<ChatMessage> kTalk = {{"system", "Be brief."},
                                        {"user", "Hi "},
                                        {"assistant", " Yes?"},
                                        {"user", "2+2"},
                                        {"assistant", "4"}};

ChatText as(const char* name) {
  return chat_text(kTalk, *find_chat_template(name), "here");
}

std::vector<std::string> learned(const ChatText& chat) {
  std::vector<std::string> parts;
  for (const TrainedSpan& span : chat.trained)
    parts.push_back(chat.text.substr(span.begin, span.end - span.begin));
  return parts;
}

TEST(Chat, KnowsTheTemplatesOfPublishedModels) {
  const ChatText chatml = as("chatml");
  EXPECT_EQ(chatml.text,
            "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi <|im_end|>\n"
            "<|im_start|>assistant\n Yes?<|im_end|>\n<|im_start|>user\n2+2<|im_end|>\n"
            "<|im_start|>assistant\n4<|im_end|>\n");
  EXPECT_EQ(learned(chatml), (std::vector<std::string>{" Yes?<|im_end|>", "4<|im_end|>"}));
  const ChatText llama3 = as("llama3");
  EXPECT_EQ(llama3.text,
            "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\nYes?<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\n2+2<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n4<|eot_id|>");
  EXPECT_EQ(learned(llama3), (std::vector<std::string>{"Yes?<|eot_id|>", "4<|eot_id|>"}));
  const ChatText mistral = as("mistral");
  EXPECT_EQ(mistral.text, "<s>[INST] Be brief.\n\nHi [/INST]  Yes?</s>[INST] 2+2[/INST] 4</s>");
  EXPECT_EQ(learned(mistral), (std::vector<std::string>{" Yes?</s>", "4</s>"}));
  const ChatText gemma = as("gemma");
  EXPECT_EQ(gemma.text,
            "<bos><start_of_turn>user\nBe brief.\n\nHi<end_of_turn>\n"
            "<start_of_turn>model\nYes?<end_of_turn>\n<start_of_turn>user\n2+2<end_of_turn>\n"
            "<start_of_turn>model\n4<end_of_turn>\n");
  EXPECT_EQ(learned(gemma), (std::vector<std::string>{"Yes?<end_of_turn>", "4<end_of_turn>"}));
}

TEST(Chat, KeepsEverySystemMessageWhereTheTemplateHasNoTurnForThem) {
  const std::vector<ChatMessage> messages = {
      {"system", "Be brief."}, {"system", "Be kind."}, {"user", "Hi"}, {"assistant", "Yes?"}};
  EXPECT_EQ(chat_text(messages, *find_chat_template("mistral"), "here").text,
            "<s>[INST] Be brief.\n\nBe kind.\n\nHi[/INST] Yes?</s>");
}

TEST(Chat, RefusesWhatHasNothingToLearn) {
  const ChatTemplate& chatml = *find_chat_template("chatml");
  const std::vector<ChatMessage> asked = {{"user", "Hi"}};
  EXPECT_EQ(user_error([&] { chat_text(asked, chatml, "a.jsonl:3"); }),
            "a.jsonl:3 has no turn of the assistant, so there is nothing to learn; leave it out");
  const std::vector<ChatMessage> tool = {{"tool", "42"}};
  EXPECT_EQ(user_error([&] { chat_text(tool, chatml, "a.jsonl:3"); }),
            "a.jsonl:3 has a message of role \"tool\"; known are system, user and assistant");
}

TEST(Chat, MarksWhatIsNotLearnedAmongTheTokensOfTheWholeText) {
  WordCounter counter("gpt4");
  for (int i = 0; i < 20; ++i) counter.add("Hi there. Yes? 2+2 is 4, be brief. user assistant\n");
  const auto bpe = parse_tokenizer_json(train_bpe(counter.counts(), {.vocabulary = 300}));
  const auto bytes = open_tokenizer("bytes");
  for (const char* name : {"chatml", "mistral"}) {
    const ChatText chat = as(name);
    const std::string_view text = chat.text;
    for (const auto* tokenizer : {bpe.get(), bytes.get()}) {
      const auto marked = chat_tokens({&text, 1}, {&chat.trained, 1}, *tokenizer, 2)[0];
      std::vector<std::int32_t> tokens;
      std::vector<std::int32_t> kept;
      for (const std::uint32_t token : marked) {
        tokens.push_back(static_cast<std::int32_t>(token & ~kUntrained));
        if ((token & kUntrained) == 0) kept.push_back(tokens.back());
      }
      EXPECT_EQ(tokens, tokenizer->encode(text)) << name;
      std::string expected;
      for (const std::string& part : learned(chat)) expected += part;
      EXPECT_EQ(tokenizer->decode(kept, Specials::Keep), expected) << name;
    }
  }
}

std::string golden_jinja(const std::string& name) {
  return read_text(testing::source_path("tests/golden/chat_templates/" + name + ".jinja"));
}

// Rendered by transformers 5.23 the golden files gave the texts of chat_text() and chat_prompt().
TEST(Chat, WritesEachTemplateAsJinja) {
  for (const ChatTemplate& known : chat_templates())
    EXPECT_EQ(jinja_of(known), golden_jinja(known.name)) << known.name;
  const ChatTemplate own = {.begin = "{{ \\ }} €",
                            .user = "\"U\" {content}\t{% raw %}\n",
                            .assistant = "{content};{end}\n"};
  EXPECT_EQ(jinja_of(own), golden_jinja("own"));
}

constexpr const char* kLines =
    "{\"messages\": [{\"role\": \"user\", \"content\": \"ab\"}, "
    "{\"role\": \"assistant\", \"content\": \"cde\"}]}\n"
    "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"x\"}]}, "
    "{\"role\": \"assistant\", \"content\": \"yz\"}]}\n";
const ChatTemplate kOwn = {.user = "U{content}", .assistant = "A{content};{end}\n"};
constexpr const char* kText = "UabAcde;\nUxAyz;\n";

Query query_of(const std::string& path, std::int64_t sequence) {
  return {.config = {.path = {{path}}, .chat = kOwn, .validation = 0.0},
          .vocabulary = 256,
          .sequence = sequence,
          .batch = 2};
}

TEST(Chat, OnlyWhatTheAssistantSaysIsATarget) {
  const TemporaryDirectory directory;
  const Data data(query_of(directory.write("talk.jsonl", kLines), 5));
  std::string targets;
  std::string tokens;
  for (std::int64_t w = 0; w < data.training().windows(); ++w) {
    std::vector<std::int32_t> x(5);
    std::vector<std::int32_t> y(5);
    data.training().read_window(w, x, y);
    for (int i = 0; i < 5; ++i) {
      tokens += static_cast<char>(x[i]);
      targets += y[i] == kNoTarget ? '-' : static_cast<char>(y[i]);
    }
  }
  EXPECT_EQ(tokens, std::string(kText).substr(0, 15));
  EXPECT_EQ(targets, "---cde;----yz;-");
  EXPECT_EQ(data.training().targets(1), 2);
  EXPECT_EQ(data.training().targets(3), 7);
  for (std::int64_t window = 0; window < 3; ++window) {
    std::vector<std::int32_t> y(5);
    data.training().read(window, "targets", {.ids = y});
    EXPECT_EQ(data.training().window_targets(window), 5 - std::ranges::count(y, kNoTarget));
  }
}

TEST(Chat, APackedFileRemembersWhatIsLearned) {
  const TemporaryDirectory directory;
  const Documents documents(directory.write("talk.jsonl", kLines), &kOwn);
  const auto bytes = open_tokenizer("bytes");
  for (const char* name : {"talk.u32.bin", "talk.npy"}) {
    const std::string path = directory.path(name);
    TokenWriter writer(path, 256, TokenWriter::Room::Marked);
    for (const auto& one : chat_tokens(documents.texts(), documents.trained(), *bytes, 1))
      writer.append_marked(one);
    writer.finish();
    const TokenStream packed(path, TokenType::Auto, 256);
    const TokenStream fresh(directory.path("talk.jsonl"), TokenType::Auto, 256, {.chat = &kOwn});
    ASSERT_EQ(packed.size(), fresh.size());
    std::vector<std::int32_t> a(static_cast<std::size_t>(packed.size()));
    std::vector<std::int32_t> b(a.size());
    packed.read_targets(0, a);
    fresh.read_targets(0, b);
    EXPECT_EQ(a, b);
    EXPECT_EQ(packed.targets(0, packed.size()), 7);
    packed.read(0, a);
    EXPECT_EQ(std::string(a.begin(), a.end()), kText);
    packed.check_tokens();
  }
  EXPECT_NE(user_error([&] {
              TokenWriter(directory.path("talk.bin"), 256, TokenWriter::Room::Marked);
            }).find("conversations need tokens of 32 bits"),
            std::string::npos);
}

TEST(Chat, RefusesLinesThatAreNoConversations) {
  const auto refusal = [](const std::string& text, const ChatTemplate* chat) {
    return user_error([&] { Documents(text, "a.jsonl", chat); });
  };
  EXPECT_EQ(refusal(kLines, nullptr),
            "a.jsonl:1 has messages, and nothing says how they become text; set data.template to "
            "\"chatml\", \"llama3\", \"mistral\", \"gemma\", or one of your own");
  EXPECT_EQ(refusal("{\"messages\": [{\"role\": \"user\"}]}", &kOwn),
            "a.jsonl:1 has a message without \"content\"");
  EXPECT_EQ(refusal(std::string(kLines) + "{\"text\": \"a\"}\n", &kOwn),
            "a.jsonl:3 and the lines before it do not have the same; a file has \"messages\" in "
            "every line, or \"text\"");
  EXPECT_EQ(refusal("{\"text\": \"a\"}\n" + std::string(kLines), &kOwn),
            "a.jsonl:2 and the lines before it do not have the same; a file has \"messages\" in "
            "every line, or \"text\"");
}

}  // namespace
}  // namespace cleave::data
