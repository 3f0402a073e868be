#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "app/run_cleave.h"
#include "support/paths.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace cleave {
namespace {

using testing::Answer;
using testing::run_cleave;

struct PublishedRun {
  std::string source, model, cluster, batch, layout, seconds;
  nlohmann::json predicted;

  bool fits() const { return seconds != "oom"; }
  double error() const { return predicted["step_seconds"].get<double>() / std::stod(seconds) - 1; }
};

/// The lines of a table under tests/golden/published, cut at the commas; the last column keeps its
/// own.
std::vector<std::vector<std::string>> published_table(const char* name, std::size_t columns) {
  std::ifstream file(testing::source_path(std::string("tests/golden/published/") + name));
  std::vector<std::vector<std::string>> table;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#') || line.starts_with("source,")) continue;
    std::vector<std::string>& row = table.emplace_back(1);
    for (const char c : line) {
      if (c == ',' && row.size() < columns) {
        row.emplace_back();
      } else {
        row.back() += c;
      }
    }
  }
  return table;
}

nlohmann::json predict(const PublishedRun& run) {
  const Answer answer = run_cleave("plan --model " + run.model + " --cluster " + run.cluster +
                                   " --batch " + run.batch + " --layout " + run.layout + " --json");
  EXPECT_TRUE(answer.exit == 0 || answer.exit == 3) << answer.err;
  return nlohmann::json::parse(answer.out);
}

/// Everybody's runs, predicted once; in the file blanks stand for the commas inside a column.
const std::vector<PublishedRun>& published_runs() {
  static const std::vector<PublishedRun> runs = [] {
    std::vector<PublishedRun> list;
    for (std::vector<std::string> row : published_table("runs.csv", 6)) {
      for (std::string& column : row) std::ranges::replace(column, ' ', ',');
      list.push_back({row[0], row[1], row[2], row[3], row[4], row[5], {}});
      list.back().predicted = predict(list.back());
    }
    return list;
  }();
  return runs;
}

std::vector<double> ranks(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [&](std::size_t i) { return values[i]; });
  std::vector<double> rank(values.size());
  for (std::size_t i = 0; i < order.size(); ++i) rank[order[i]] = static_cast<double>(i);
  return rank;
}

/// Spearman's: 1 - 6 Σd² / n(n² - 1).
double rank_correlation(const std::vector<double>& a, const std::vector<double>& b) {
  const std::vector<double> ranks_a = ranks(a);
  const std::vector<double> ranks_b = ranks(b);
  double squares = 0;
  for (std::size_t i = 0; i < a.size(); ++i) squares += std::pow(ranks_a[i] - ranks_b[i], 2);
  const double n = static_cast<double>(a.size());
  return 1 - 6 * squares / (n * (n * n - 1));
}

// What each source is held to stands beside it, in sources.csv.
TEST(PublishedRuns, StepTimesWithinWhatTheirSourcesAreHeldTo) {
  std::map<std::string, std::vector<double>> errors;
  std::map<std::string, double> largest;
  int held = 0;
  for (const auto& source : published_table("sources.csv", 5)) {
    if (source[3] != "-") largest[source[0]] = std::stod(source[3]);
  }
  for (const PublishedRun& run : published_runs()) {
    if (!run.fits() || !largest.contains(run.source)) continue;
    const double error = 100 * std::abs(run.error());
    EXPECT_LE(error, largest[run.source]) << run.source << ' ' << run.model << ' ' << run.layout;
    errors[run.source].push_back(error);
  }
  for (const auto& source : published_table("sources.csv", 5)) {
    if (source[2] == "-") continue;
    const std::vector<double>& list = errors[source[0]];
    ASSERT_FALSE(list.empty()) << source[0];
    const double sum = std::accumulate(list.begin(), list.end(), 0.0);
    EXPECT_LE(sum / static_cast<double>(list.size()), std::stod(source[2])) << source[0];
    held += static_cast<int>(list.size());
  }
  EXPECT_GE(held, 225);
}

// Someone trained with these layouts.
TEST(PublishedRuns, WhatRanIsSaidToFit) {
  int right = 0;
  int all = 0;
  for (const PublishedRun& run : published_runs()) {
    if (!run.fits()) continue;
    ++all;
    right += run.predicted["fits"] == true;
  }
  EXPECT_GE(right, 0.97 * all);
}

TEST(PublishedRuns, LlamaLayoutsFitAndRankAsMeasured) {
  std::map<std::string, std::vector<std::pair<double, double>>> tables;  // (predicted, measured)
  std::vector<double> predicted;
  std::vector<double> measured;
  int right = 0;
  int all = 0;
  for (const PublishedRun& run : published_runs()) {
    if (run.source != "llama_layouts_13b") continue;
    ++all;
    right += run.predicted["fits"] == run.fits();
    if (!run.fits()) continue;
    predicted.push_back(run.predicted["step_seconds"]);
    measured.push_back(std::stod(run.seconds));
    tables[run.cluster + run.model].push_back({predicted.back(), measured.back()});
  }
  ASSERT_EQ(all, 135);
  EXPECT_GE(right, 0.9 * all);
  EXPECT_GE(rank_correlation(predicted, measured), 0.85);
  for (const auto& [name, runs] : tables) {
    const double best =
        std::ranges::min_element(runs, {}, &std::pair<double, double>::second)->second;
    EXPECT_LE(std::ranges::min(runs).second, 1.05 * best) << name;
  }
}

TEST(PlanCommand, JsonIsOneObjectWithTheLayoutAndItsRivals) {
  const Answer answer =
      run_cleave("plan --model gpt3-22b --cluster a100-80gb:64 --batch 64 --json");

  ASSERT_EQ(answer.exit, 0) << answer.err;
  const auto json = nlohmann::json::parse(answer.out);
  EXPECT_EQ(json["fits"], true);
  EXPECT_LE(json["memory_bytes"], json["budget_bytes"]);
  const auto& layout = json["layout"];
  EXPECT_EQ(layout["tp"].get<int>() * layout["pp"].get<int>() * layout["dp"].get<int>(), 64);
  ASSERT_GE(json["candidates"].size(), 2);
  EXPECT_EQ(json["candidates"][0]["step_seconds"], json["step_seconds"]);
  EXPECT_GE(json["candidates"][1]["step_seconds"], json["step_seconds"]);
  EXPECT_TRUE(json.contains("search_seconds"));
}

TEST(PlanCommand, TheLayoutItPrintsIsALayoutItReads) {
  const std::string asked = "plan --model llama-7b --cluster h100:16 --batch 64 ";
  const Answer found = run_cleave(asked);
  ASSERT_EQ(found.exit, 0) << found.err;
  const std::string layout = found.out.substr(0, found.out.find('\n'));

  const Answer again = run_cleave(asked + "--layout " + layout);

  EXPECT_EQ(again.exit, 0) << again.err;
  EXPECT_EQ(again.out, found.out.substr(0, again.out.size()));
}

TEST(PlanCommand, AnswersAlsoWhenItDoesNotFit) {
  const Answer answer =
      run_cleave("plan --model llama-70b --cluster a100-80gb:8 --batch 8 --layout tp=8 --json");

  EXPECT_EQ(answer.exit, 3);
  const auto json = nlohmann::json::parse(answer.out);
  EXPECT_EQ(json["fits"], false);
  EXPECT_GT(json["memory_bytes"], json["budget_bytes"]);
  EXPECT_GT(json["step_seconds"], 0);
  EXPECT_NE(answer.err.find("more than the 77.0 GiB usable of a100-80gb"), std::string::npos)
      << answer.err;
}

TEST(PlanCommand, SaysWhatWouldMakeALayoutFit) {
  const Answer answer = run_cleave("plan --model llama-70b --cluster a100-40gb:8 --batch 64");

  EXPECT_EQ(answer.exit, 3);
  EXPECT_NE(answer.err.find("no layout fits; the nearest, "), std::string::npos) << answer.err;
  EXPECT_NE(answer.err.find("devices of this kind would do"), std::string::npos) << answer.err;
  EXPECT_NE(answer.out.find("too much by"), std::string::npos) << answer.out;
}

// With the tower's devices left out of the backward pass, in well under a second.
TEST(PlanCommand, PlansAModelWithAFrozenTowerOnSixteenDevices) {
  const std::string model = "plan --model preset=llava-1.5-7b,sequence=2048 --cluster a100-80gb:16";
  const Answer answer = run_cleave(model + " --batch 128 --train projector,language --json");
  ASSERT_EQ(answer.exit, 0) << answer.err;
  const auto json = nlohmann::json::parse(answer.out);
  EXPECT_LT(json["search_seconds"], 5);  // half a second, where nothing else runs
  EXPECT_GT(json["layouts"], 1000);

  const Answer cut = run_cleave(model + " --batch 128 --train projector --layout tp=1,pp=4 --json");
  ASSERT_EQ(cut.exit, 0) << cut.err;
  const auto stages = nlohmann::json::parse(cut.out);
  const auto partition = stages["layout"]["partition"].get<std::vector<int>>();
  EXPECT_EQ(std::accumulate(partition.begin(), partition.end(), 0), 23 + 32);
  // The tower takes a third of what its layers would if they learned, so the first stage has all
  // of it and language layers besides.
  EXPECT_GT(partition[0], 23);
  EXPECT_EQ(stages["memory"][2]["optimizer"], 0);
}

TEST(PlanCommand, PlansTwoTowersAndTowersThatFeedSeveralLayers) {
  for (const std::string model : {"clip-vit-b-32", "siglip-b-16"}) {
    const Answer answer =
        run_cleave("plan --model " + model + " --cluster a100-80gb:16 --batch 4096 --json");
    ASSERT_EQ(answer.exit, 0) << answer.err;
    EXPECT_EQ(nlohmann::json::parse(answer.out)["layout"]["schedule"], "gpipe");
    const Answer early = run_cleave("plan --model " + model +
                                    " --cluster a100-80gb:16 --batch 4096 --layout "
                                    "pp=2,dp=8,schedule=1f1b");
    EXPECT_EQ(early.exit, 2);
    EXPECT_NE(early.err.find("schedule 1f1b begins backward passes before it has them; take gpipe"),
              std::string::npos)
        << early.err;
  }
  const Answer deep = run_cleave(
      "plan --model preset=deepstack-tiny,sequence=64 --cluster a100-80gb:4 --batch 64 "
      "--layout pp=4 --json");
  ASSERT_EQ(deep.exit, 0) << deep.err;
  const auto partition =
      nlohmann::json::parse(deep.out)["layout"]["partition"].get<std::vector<int>>();
  EXPECT_EQ(std::accumulate(partition.begin(), partition.end(), 0), 4 + 4);
}

TEST(PlanCommand, RefusesNonsenseWithTheRemedy) {
  const std::string good = "plan --model gpt3-22b --cluster a100-80gb:64 --batch 64";
  const std::pair<std::string, std::string> cases[] = {
      {"plan --model gpt3-22b --cluster a100-80gb:0 --batch 64",
       "--cluster a100-80gb:0 has 0 devices; give between 1 and 10000000"},
      {"plan --model gpt3-22b --cluster a100:-4 --batch 64", "has -4 devices; give between 1 and"},
      {"plan --model gpt3-22b --cluster a100-80gb --batch 64",
       "does not say how many devices; write it as a100-80gb:1024"},
      {"plan --model gpt3-22b --cluster a10-80gb:8 --batch 64",
       "does not know the hardware \"a10-80gb\"; did you mean a100-80gb?"},
      {"plan --model gpt3-22b --cluster a100-80gb:64 --batch 0", "--batch 0 must be at least 1"},
      {"plan --model gpt9 --cluster a100-80gb:64 --batch 64",
       "there is no model preset \"gpt9\"; known are"},
      {"plan --model kind=gpt,layers=4 --cluster a100:8 --batch 8", "--model needs hidden"},
      {"plan --model vit-tiny --cluster a100:8 --batch 8", "a vit reads no tokens"},
      {"plan --model smolvlm-256m --cluster a100:8 --batch 8 --train projectorr",
       "no parameter is called so; did you mean projector?"},
      {"plan --model kind=gpt,layers=0,hidden=64,heads=4 --cluster a100:8 --batch 8",
       "model.layers is 0; it must be at least 1"},
      {"plan --cluster a100:8 --batch 8",
       "cleave plan needs a run config, or --model, --cluster and --batch"},
      {good + " --layout tp=3",
       "pipeline 1 × tensor 3 × data 21 makes 63 devices, but there are 64"},
      {good + " --layout tp=8,dp=8,microbatch=3",
       "--batch 64 is not divisible by microbatch 3 × 8 data shards (= 24)"},
      {good + " --layout tp=8,pipeline=2",
       "--layout does not know 'pipeline'; known are tp, pp, dp"},
      {good + " --layout tp=8,zero=4", "zero 4 must be 0, 1, 2 or 3"},
      {good + " --layout schedule=1f2b", "unknown schedule '1f2b'; did you mean 1f1b?"},
      {good + " --layout recompute=some", "known are none, selective and full"},
      {good + " --layout pp=64,chunks=2",
       "128 stages need at least 126 layers, and the model has 48"},
      {good + " --layout tp=x", "--layout tp=x is not a whole number from 0 on"},
  };
  for (const auto& [arguments, message] : cases) {
    const Answer answer = run_cleave(arguments);
    EXPECT_EQ(answer.exit, 2) << arguments;
    EXPECT_NE(answer.err.find(message), std::string::npos) << arguments << '\n' << answer.err;
    EXPECT_EQ(answer.out, "");
  }
}

}  // namespace
}  // namespace cleave
