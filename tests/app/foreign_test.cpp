// Directories that Hugging Face's tools saved, given to the program as they are.

#include <string>

#include "app/run_cleave.h"
#include "support/paths.h"
#include "support/temporary_directory.h"
#include <gtest/gtest.h>

namespace cleave {
namespace {

using testing::Answer;
using testing::run_cleave;

const std::string kTokenless = testing::source_path("tests/golden/hugging_face/qwen3");

TEST(ForeignDirectory, WithoutItsTokenizerTakesNoText) {
  const testing::TemporaryDirectory directory;
  // Bytes that the model would have tokens for.
  const std::string text = directory.write("data.txt", std::string(2000, '\5'));
  const std::string config = directory.write(
      "run.toml", "[model]\nfrom = \"" + kTokenless + "\"\n[data]\npath = \"" + text +
                      "\"\n[train]\nout = \"" + directory.path("out") + "\"\n");
  const Answer trained = run_cleave("train " + config);
  EXPECT_EQ(trained.exit, 2);
  EXPECT_NE(trained.err.find("data.path has text, and model.from " + kTokenless +
                             " has no tokenizer.json and no tokenizer.model; set data.tokenizer to "
                             "the one that belongs to the model"),
            std::string::npos)
      << trained.err;
  const Answer evaluated = run_cleave("evaluate " + kTokenless + " --data " + text);
  EXPECT_EQ(evaluated.exit, 2);
  EXPECT_EQ(evaluated.err,
            "cleave: --data " + text +
                " is text, and the model was trained on tokens of a tokenizer that is not beside "
                "it; pass --set data.tokenizer=FILE\n");
}

TEST(ForeignDirectory, WithoutItsTokenizerContinuesNumbers) {
  const Answer words = run_cleave("generate " + kTokenless + " --prompt hello --tokens 3");
  EXPECT_EQ(words.exit, 2);
  EXPECT_EQ(words.err,
            "cleave: the prompt \"hello\" is no list of tokens; this model has no tokenizer beside "
            "it (tokenizer.json or tokenizer.model), so give numbers like \"17 4 251\"\n");
  const Answer numbers = run_cleave("generate " + kTokenless + " --prompt '5 7' --tokens 3");
  EXPECT_EQ(numbers.exit, 0) << numbers.err;
}

// What their classes have no key for would be another model there.
TEST(ForeignDirectory, IsNotMadeOfAModelThatHuggingFaceDoesNotHave) {
  const testing::TemporaryDirectory directory;
  const std::string out = directory.path("out");
  const std::string config = directory.write(
      "run.toml", "[model]\npreset = \"llama-tiny\"\nwindow = 16\n[data]\npath = \"" +
                      directory.write("data.txt", std::string(2000, 'a')) +
                      "\"\n[train]\nsteps = 1\nbatch = 1\nwarmup = 0\nsequence = 32\nout = \"" +
                      out + "\"\n");
  ASSERT_EQ(run_cleave("train " + config).exit, 0);
  EXPECT_EQ(run_cleave("generate " + out + " --prompt a --tokens 2").exit, 0);
  const Answer exported = run_cleave("export " + out + " " + directory.path("exported"));
  EXPECT_EQ(exported.exit, 2);
  EXPECT_EQ(exported.err,
            "cleave: model.kind \"llama\" of this shape is none that Hugging Face's tools know; it "
            "cannot have a config.json\n");
}

}  // namespace
}  // namespace cleave
