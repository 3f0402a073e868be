// Directories that Hugging Face's tools saved, given to the program as they are.

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "app/run_cleave.h"
#include "support/paths.h"
#include "support/temporary_directory.h"
#include <gtest/gtest.h>

#include "cleave/checkpoint/safetensors.h"

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

/// A copy of that directory in which the last weight is a NaN, and the name of its tensor.
std::pair<std::string, std::string> with_a_nan(const testing::TemporaryDirectory& directory) {
  const std::string copy = directory.path("nan");
  std::filesystem::copy(kTokenless, copy);
  const std::filesystem::path file = copy + "/model.safetensors";
  std::string bytes = testing::read_text(file.string());
  bytes.replace(bytes.size() - 4, 4, "\xff\xff\xff\xff");
  std::ofstream(file, std::ios::binary) << bytes;
  return {copy, checkpoint::SafetensorsFile(file).header().tensors.back().name};
}

TEST(ForeignDirectory, WithANanIsNeitherEvaluatedNorContinued) {
  const testing::TemporaryDirectory directory;
  const auto [copy, tensor] = with_a_nan(directory);
  const std::string why = " not finite: tensor \"" + tensor + "\" of " + copy +
                          " holds a number that is NaN or infinite; use another checkpoint\n";
  const std::string tokens = directory.write("data.u16.bin", std::string(200, '\0'));
  for (const std::string devices : {"", " --devices 2"}) {
    const Answer evaluated =
        run_cleave("evaluate " + copy + " --data " + tokens + " --sequence 8" + devices);
    EXPECT_EQ(evaluated.exit, 1);
    EXPECT_EQ(evaluated.out, "");
    EXPECT_EQ(evaluated.err, "cleave: the loss is" + why);
    const Answer generated =
        run_cleave("generate " + copy + " --prompt '5 7' --tokens 3" + devices);
    EXPECT_EQ(generated.exit, 1);
    EXPECT_EQ(generated.err, "cleave: the logits are" + why);
  }
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
