// Codecs on the edges of a split model: the same bits wherever the ends are, and fewer bytes.

#include "app/served_owners.h"
#include <gtest/gtest.h>

namespace cleave {
namespace {

using nlohmann::json;
using testing::Answer;
using testing::EdgeRun;
using testing::hand_out_data;
using testing::ServedOwners;

const std::string kMixed = "{forward = \"int8/64\", backward = \"bf16\"}";

std::string coded(const std::string& codec, int clients, const std::string& layers = "[1, 1]") {
  return "[edge]\ncodec = " + codec + "\n" + testing::clinics_and_hub(clients, layers);
}

/// What a client sends in a step, over its cuts and in all.
std::int64_t leaving(const EdgeRun& run, const std::string& what) {
  const json flow = json::parse(run.verify("--json").out);
  std::int64_t bytes = 0;
  for (const auto& row : flow["flow"])
    if (row["from"] == "clinic-0" && (what.empty() || row["class"] == what))
      bytes += row["bytes"].get<std::int64_t>();
  return bytes;
}

TEST(CodedSplit, HasTheWeightsOfOneDeviceWithTheSameCodecs) {
  const json plain = EdgeRun(coded("\"none\"", 2), 2).report("");
  for (const std::string& codec :
       {std::string("\"bf16\""), std::string("\"int8\""), std::string("\"int4/32\""), kMixed}) {
    const EdgeRun run(coded(codec, 2), 2);
    const json apart = run.report("", "split");
    const json central = run.report("--central", "central");

    EXPECT_EQ(apart["weights"], central["weights"]) << codec;
    EXPECT_EQ(apart["loss"], central["loss"]) << codec;
    EXPECT_EQ(apart["validation_loss"], central["validation_loss"]) << codec;
    EXPECT_NE(apart["weights"], plain["weights"]) << codec;
    EXPECT_NEAR(apart["loss"].back().get<double>(), plain["loss"].back().get<double>(), 0.2)
        << codec;
    for (const auto& device : apart["devices"])
      EXPECT_EQ(device["peak_bytes"], device["planned_bytes"]);
  }
}

TEST(CodedSplit, HasOneHashInEverySchedule) {
  const EdgeRun run(coded(kMixed, 2), 2);
  const auto weights = run.report("")["weights"];

  EXPECT_EQ(run.report("--set parallel.schedule=v-min", "min")["weights"], weights);
  EXPECT_EQ(run.report("--set 'parallel.recompute=\"full\"'", "again")["weights"], weights);
}

TEST(CodedSplit, SendsTheBytesOfItsCodecs) {
  const EdgeRun run(coded(kMixed, 1), 1);
  const EdgeRun plain(coded("\"none\"", 1), 1);
  // Four microbatches of 16 tokens with 32 numbers. In int8 these are 8 blocks of 64 with a scale,
  // in messages of whole lines of 64 bytes.
  const std::int64_t numbers = 4 * 16 * 32;
  const std::int64_t coded_message = (8 * (64 + 4) + 63) / 64 * 64;

  EXPECT_EQ(leaving(plain, "activation"), numbers * 4);
  EXPECT_EQ(leaving(run, "activation"), 4 * coded_message);
  EXPECT_EQ(leaving(plain, "gradient"), numbers * 4);
  EXPECT_EQ(leaving(run, "gradient"), numbers * 2);
  EXPECT_EQ(run.report("")["devices"][0]["bytes_sent"], leaving(run, ""));
}

TEST(CodedSplit, GoesOnWithTheChanceOfTheUndisturbedRun) {
  const EdgeRun run(coded("\"int4\"", 2), 2);
  const std::string& level = testing::kLevelRate;
  const auto whole = run.report(level, "whole")["weights"];

  run.report(level + "--set train.steps=2", "parted");
  EXPECT_EQ(run.report(level + "--resume", "parted")["weights"], whole);
  const Answer other = run.train(level + "--resume --set edge.codec=int8", "parted");
  EXPECT_EQ(other.exit, 2);
  EXPECT_NE(other.err.find("edge.codec is \"int8\""), std::string::npos) << other.err;
}

TEST(CodedSplit, RefusesWhatIsForUpdates) {
  const Answer topk = EdgeRun(coded("\"topk\"", 1), 1).train("");
  EXPECT_EQ(topk.exit, 2);
  EXPECT_NE(topk.err.find("edge.codec is \"topk\", which leaves numbers out"), std::string::npos)
      << topk.err;
  const Answer ways =
      EdgeRun(testing::averaged("sync_every = 1\ncodec = " + kMixed + "\n"), 3).train("");
  EXPECT_EQ(ways.exit, 2);
  EXPECT_NE(ways.err.find("updates go one way; give one codec"), std::string::npos) << ways.err;
}

TEST(ServedCodedSplit, HasTheWeightsOfThreads) {
  const EdgeRun run(coded(kMixed, 2), 2);
  const json threads = run.report("", "threads");
  hand_out_data(run, 2);
  ServedOwners served(run, {});
  for (int client = 0; client < 2; ++client) served.join(client);
  const json report = served.report();

  EXPECT_EQ(report["weights"], threads["weights"]);
  EXPECT_EQ(report["loss"], threads["loss"]);
  for (const json& device : report["devices"])
    EXPECT_EQ(device["peak_bytes"], device["planned_bytes"]);
}

}  // namespace
}  // namespace cleave
