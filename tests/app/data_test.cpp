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
using testing::source_path;
using testing::TemporaryDirectory;

TEST(DataCommand, LearnsATokenizerAndPacksTokensWithIt) {
  const TemporaryDirectory dir;
  std::string text;
  for (int i = 0; i < 300; ++i) text += "the cat sat on the mat " + std::to_string(i) + "\n";
  dir.write("text/a.txt", text);
  dir.write("text/b.jsonl", "{\"text\": \"the mat\"}\n{\"text\": \"the cat\"}\n");
  const std::string json = dir.path("tokenizer.json");

  const Answer trained = run_cleave("data train-tokenizer " + dir.path("text") +
                                    " --vocab 280 --out " + json + " --json");
  ASSERT_EQ(trained.exit, 0) << trained.err;
  EXPECT_EQ(nlohmann::json::parse(trained.out)["vocabulary"], 280);
  const Answer packed = run_cleave("data tokenize " + dir.path("text") + " --tokenizer " + json +
                                   " --out " + dir.path("t.npy") + " --json");
  ASSERT_EQ(packed.exit, 0) << packed.err;
  const auto summary = nlohmann::json::parse(packed.out);
  EXPECT_EQ(summary["documents"], 3);
  EXPECT_LT(summary["tokens"], text.size() / 2);
}

TEST(DataCommand, SaysWhatDataHas) {
  const TemporaryDirectory dir;
  const std::string talk = dir.write(
      "talk.jsonl", "{\"text\": \"one\"}\n{\"text\": \"three\"}\n{\"text\": \"\\u001b[31m\"}\n");
  const std::string text = dir.write("a.txt", "zebra\n");

  const auto lines = nlohmann::json::parse(run_cleave("data inspect " + talk + " --json").out);
  const Answer plain = run_cleave("data inspect " + text);

  EXPECT_EQ(lines["tokens"], 3 + 5 + 5 + 3);  // a newline follows each
  EXPECT_EQ(lines["largest_token"], 't');
  EXPECT_EQ(lines["text_bytes"], 3 + 5 + 5);
  EXPECT_EQ(plain.out, text +
                           ": 6 tokens in 1 document, the largest of them 122\n"
                           "made from 6 bytes of text, 1.00 for a token\n"
                           "begins with \"zebra\\x0a\"\n");
  EXPECT_EQ(run_cleave("data inspect " + talk).out.find('\x1b'), std::string::npos);
  EXPECT_EQ(run_cleave("data inspect " + dir.path("no.bin")).exit, 2);
}

// Seen by one of the threads that count words.
TEST(DataCommand, RefusesAPatternThatTakesTooManySteps) {
  const TemporaryDirectory dir;
  const std::string text = dir.write("a.txt", std::string(2000, 'a'));

  const Answer answer =
      run_cleave("data train-tokenizer " + text + " --threads 2 --pattern '(a|aa)+[^a]' --out " +
                 dir.path("tokenizer.json"));

  EXPECT_EQ(answer.exit, 2);
  EXPECT_TRUE(answer.err.starts_with("cleave: the pattern (a|aa)+[^a] takes too many steps"))
      << answer.err;
}

TEST(DataCommand, PrintsTokensAndTextsOfLines) {
  const TemporaryDirectory dir;
  const std::string lines = dir.write("a.jsonl", "{\"text\": \"ab\"}\n");

  const Answer answer = run_cleave("data tokenize - --json-lines < " + lines);

  EXPECT_EQ(answer.out, "{\"text\":\"ab\",\"tokens\":[97,98]}\n") << answer.err;
}

TEST(DataCommand, PacksImages) {
  const TemporaryDirectory dir;
  dir.write("list.csv", "path,label\ncolour.jpg,2\nmissing.jpg,1\ngrey.png,0\n");
  const std::string images = " --images " + source_path("tests/golden/image");
  const std::string pack =
      "data pack " + dir.path("list.csv") + images + " --size 16 --out " + dir.path("a.set");

  const Answer stopped = run_cleave(pack);
  EXPECT_EQ(stopped.exit, 2);
  EXPECT_NE(stopped.err.find("missing.jpg"), std::string::npos) << stopped.err;
  const Answer packed = run_cleave(pack + " --skip-bad --json");

  ASSERT_EQ(packed.exit, 0) << packed.err;
  EXPECT_TRUE(packed.err.starts_with("cleave: skipped: ")) << packed.err;
  const auto summary = nlohmann::json::parse(packed.out);
  EXPECT_EQ(summary["samples"], 2);
  EXPECT_EQ(summary["skipped"], 1);
  EXPECT_EQ(summary["classes"], 3);
  EXPECT_EQ(run_cleave(pack + " --skip-bad 2>/dev/full").exit, 0)
      << "what is only said ends no work";
}

TEST(DataCommand, SaysWhatIsWrongWithAPacking) {
  const TemporaryDirectory dir;
  const auto complaint = [&](const std::string& arguments) {
    const Answer answer = run_cleave("data pack " + arguments + " --out " + dir.path("a.set"));
    EXPECT_EQ(answer.exit, 2) << arguments;
    return answer.err;
  };
  const std::string images = source_path("tests/golden");

  EXPECT_EQ(complaint("nowhere --size 8"),
            "cleave: cannot read input nowhere: No such file or directory\n");
  EXPECT_EQ(complaint(images + " --size 0"), "cleave: --size 0 must be between 1 and 16384\n");
  EXPECT_EQ(complaint(images + " --size 8 --channels 2"),
            "cleave: --channels 2 must be 1 (grey) or 3 (colours)\n");
  EXPECT_EQ(complaint(images + " --size 8 --filter sinc"),
            "cleave: there is no filter \"sinc\"; known are bicubic, bilinear, box, lanczos\n");
  EXPECT_EQ(complaint(images + " --size 8 --mean 0.5 --std 0.5"),
            "cleave: --mean has 1 and --std 1 numbers, and there are 3 channels; give one number "
            "for each\n");
}

TEST(DataCommand, SaysWhatIsWrong) {
  const TemporaryDirectory dir;
  const std::string text = dir.write("a.txt", "abc");
  const auto complaint = [](const std::string& arguments) {
    const Answer answer = run_cleave("data tokenize " + arguments);
    EXPECT_EQ(answer.exit, 2) << arguments;
    return answer.err;
  };

  EXPECT_EQ(complaint(text),
            "cleave: say where the tokens go: either --out FILE or --json-lines\n");
  EXPECT_EQ(complaint(text + " --out t.txt"),
            "cleave: --out t.txt must end in .npy, .bin (u16) or .u32.bin (u32)\n");
  EXPECT_EQ(complaint("nowhere.txt --out t.bin"),
            "cleave: cannot read input nowhere.txt: No such file or directory\n");
  EXPECT_EQ(complaint(text + " --out t.bin --tokenizer " + text),
            "cleave: tokenizer " + text + " is neither \"bytes\" nor a file .json or .model\n");
}

}  // namespace
}  // namespace cleave
