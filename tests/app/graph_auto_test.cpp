// "auto" for models whose parts do not follow each other in a row: two towers, a tower that feeds
// several layers, long skips. By the commands that a user types.

#include <string>

#include "app/run_cleave.h"
#include "support/paths.h"
#include "support/temporary_directory.h"
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace cleave {
namespace {

using json = nlohmann::json;
using testing::Answer;
using testing::run_cleave;

constexpr int kSamplesOfSets = 16;

/// A preset, and the set that it learns from.
struct GraphCase {
  const char* preset;
  const char* set;
  const char* sequence = "";  // of [train]
  const char* more = "";      // of [model]
};

class GraphAuto : public ::testing::TestWithParam<GraphCase> {
 protected:
  void SetUp() override {
    for (const char* file : {"colour.jpg", "grey.png"})
      dir_.write(file, testing::read_text(
                           testing::source_path(std::string("tests/golden/image/") + file)));
    std::string pairs = "path,caption\n";
    std::string classes = "path,label\n";
    std::string talk;
    for (int i = 0; i < kSamplesOfSets; ++i) {
      const std::string file = i % 2 == 0 ? "colour.jpg" : "grey.png";
      pairs += fmt::format("{},picture {}\n", file, i);
      classes += fmt::format("{},{}\n", file, i % 3);
      const json entry = {{"image", file},
                          {"conversations",
                           {{{"from", "human"}, {"value", "<image>?"}},
                            {{"from", "gpt"}, {"value", fmt::format("{}.", i)}}}}};
      talk += entry.dump() + "\n";
    }
    const std::string set = GetParam().set;
    const std::string source = set == "talk.jsonl" ? talk : set == "pairs.csv" ? pairs : classes;
    const Answer packed =
        run_cleave("data pack " + dir_.write(set, source) + " --size 28 --out " + dir_.path("set") +
                   (set == "classes.csv" ? " --channels 1" : ""));
    ASSERT_EQ(packed.exit, 0) << packed.err;
    dir_.write(
        "run.toml",
        fmt::format("[model]\npreset = \"{}\"\n{}[data]\npath = \"{}\"\nvalidation = 0\n"
                    "[train]\nsteps = 2\nbatch = 8\nmicrobatch = 2\nlr = 1e-3\n"
                    "checkpoint_every = 0\n{}[numerics]\ndata_shards = 2\n",
                    GetParam().preset, GetParam().more, dir_.path("set"), GetParam().sequence));
  }

  json train(const std::string& flags) {
    const Answer answer =
        run_cleave("train " + dir_.path("run.toml") +
                   " --json --overwrite --set train.out=" + dir_.path("run") + " " + flags);
    EXPECT_EQ(answer.exit, 0) << answer.err;
    return answer.exit == 0 ? json::parse(answer.out) : json();
  }

  testing::TemporaryDirectory dir_;
};

const std::string kEverythingAuto =
    "--set parallel.pipeline=auto --set parallel.data=auto --set parallel.tensor=auto "
    "--set parallel.zero=auto --set parallel.recompute=auto --set parallel.schedule=auto ";

TEST_P(GraphAuto, HasTheBitsOfOneDeviceOnDevicesThatCouldNotHoldIt) {
  const json alone = train("");
  ASSERT_TRUE(alone.contains("weights"));
  const std::int64_t whole = alone["devices"][0]["planned_bytes"];
  for (const std::string& devices :
       {std::string("--set devices.count=2 "),
        fmt::format("--set devices.count=4 --set devices.memory={} ", whole * 7 / 8)}) {
    const json spread = train(kEverythingAuto + devices);
    ASSERT_TRUE(spread.contains("weights"));
    EXPECT_EQ(spread["weights"], alone["weights"]) << devices;
    EXPECT_EQ(spread["loss"], alone["loss"]) << devices;
    for (const json& device : spread["devices"])
      EXPECT_EQ(device["peak_bytes"], device["planned_bytes"]) << devices;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, GraphAuto,
    ::testing::Values(GraphCase{"clip-tiny", "pairs.csv", "sequence = 24\n"},
                      GraphCase{"siglip-tiny", "pairs.csv", "sequence = 24\n"},
                      GraphCase{"deepstack-tiny", "talk.jsonl", "sequence = 48\n"},
                      GraphCase{"deepstack-tiny", "talk.jsonl", "sequence = 48\n",
                                "train = [\"projector\"]\n"},
                      GraphCase{"unet-tiny", "classes.csv"}),
    [](const auto& info) {
      std::string name = info.param.preset;
      name.resize(name.find('-'));
      return name + (*info.param.more == '\0' ? "" : "_frozen");
    });

}  // namespace
}  // namespace cleave
