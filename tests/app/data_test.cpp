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

TEST(DataCommand, PrintsTokensAndTextsOfLines) {
  const TemporaryDirectory dir;
  const std::string lines = dir.write("a.jsonl", "{\"text\": \"ab\"}\n");

  const Answer answer = run_cleave("data tokenize - --json-lines < " + lines);

  EXPECT_EQ(answer.out, "{\"text\":\"ab\",\"tokens\":[97,98]}\n") << answer.err;
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
