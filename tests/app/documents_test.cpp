// Documents that share a sequence and do not see each other.

#include <cmath>
#include <string>
#include <vector>

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

/// Lines of JSON with texts of `length(i)` letters; a newline follows each as its last token.
template <class Length>
std::string json_lines(int count, const Length& length) {
  std::string lines;
  unsigned seed = 1;
  for (int i = 0; i < count; ++i) {
    std::string text;
    for (int k = 0; k < length(i); ++k) {
      seed = seed * 1664525u + 1013904223u;
      text += static_cast<char>('a' + (seed >> 24) % 26);
    }
    lines += Json({{"text", text}}).dump() + "\n";
  }
  return lines;
}

class DocumentsApart : public ::testing::Test {
 protected:
  std::string config_of(const std::string& data) const {
    return directory_.write(
        "run.toml",
        "[model]\nkind = \"llama\"\nlayers = 2\nhidden = 32\nheads = 4\nkv_heads = 2\nvocab = 256\n"
        "context = 64\n[data]\npath = \"" +
            data + "\"\ndocuments = \"apart\"\n[train]\nsteps = 3\nbatch = 4\nmicrobatch = 2\n" +
            "sequence = 32\nlr = 0.02\nout = \"" + directory_.path("out") +
            "\"\n[numerics]\ntensor_shards = 2\ndata_shards = 2\n");
  }
  Json train(const std::string& config, const std::string& arguments = "") const {
    const Answer answer = run_cleave("train " + config + " --overwrite --json " + arguments);
    EXPECT_EQ(answer.exit, 0) << arguments << ": " << answer.err;
    return answer.exit == 0 ? Json::parse(answer.out) : Json();
  }
  double loss(const std::string& data, const std::string& arguments) const {
    const Answer answer = run_cleave("evaluate " + directory_.path("out") + " --json --data " +
                                     data + " " + arguments);
    EXPECT_EQ(answer.exit, 0) << answer.err;
    return answer.exit == 0 ? Json::parse(answer.out)["loss"].get<double>() : 0;
  }

  TemporaryDirectory directory_;
};

TEST_F(DocumentsApart, TrainToTheSameBitsInEveryLayout) {
  const std::string config =
      config_of(directory_.write("d.jsonl", json_lines(120, [](int i) { return 3 + i % 40; })));
  const Json alone = train(config);

  for (const char* layout :
       {"--set parallel.pipeline=2", "--set parallel.tensor=2",
        "--set parallel.tensor=2 --set parallel.sequence_parallel=true",
        "--set parallel.data=2 --set parallel.zero=3", "--set parallel.recompute=full",
        "--set parallel.recompute=selective --set parallel.pipeline=2"}) {
    const Json other = train(config, layout);
    EXPECT_EQ(other["weights"], alone["weights"]) << layout;
    EXPECT_EQ(other["loss"], alone["loss"]) << layout;
    EXPECT_EQ(other["validation_loss"], alone["validation_loss"]) << layout;
  }
  EXPECT_NE(train(config, "--set data.documents=joined")["loss"], alone["loss"]);
}

// Rotary positions are relative, so that a document has the same losses wherever it stands, but for
// rounding: some hundred operations on numbers of magnitude 1.
TEST_F(DocumentsApart, HaveTheLossesOfDocumentsInSequencesOfTheirOwn) {
  const std::string data =
      directory_.write("d.jsonl", json_lines(64, [](int) { return 15; }));  // and a newline
  train(config_of(data), "--set train.steps=1");

  const double alone = loss(data, "--sequence 16 --set data.documents=joined");
  EXPECT_NEAR(loss(data, "--sequence 64"), alone, 2e-6 * alone);
  EXPECT_NEAR(loss(data, "--sequence 32 --devices 2"), alone, 2e-6 * alone);
  EXPECT_GT(std::abs(loss(data, "--sequence 64 --set data.documents=joined") - alone), 1e-4);
}

TEST_F(DocumentsApart, NeedToSayWhereTheyEnd) {
  const std::string tokens = directory_.write("t.bin", std::string(4000, '\1'));
  const Answer answer = run_cleave("train " + config_of(tokens) + " --set model.vocab=300");

  EXPECT_EQ(answer.exit, 2);
  EXPECT_EQ(answer.err, "cleave: " + tokens +
                            " has tokens, and nothing says where their documents end, which "
                            "data.documents = \"apart\" needs; set data.tokenizer to one with an "
                            "end token, or leave data.documents out\n");
}

}  // namespace
}  // namespace cleave
