#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "app/run_cleave.h"
#include "support/paths.h"
#include "support/temporary_directory.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace cleave {
namespace {

using testing::Answer;
using testing::run_cleave;
using testing::TemporaryDirectory;

TEST(ScheduleCommand, JsonIsOneObjectWithTheNumbers) {
  const Answer answer = run_cleave("schedule 1f1b --stages 4 --microbatches 8 --json");

  ASSERT_EQ(answer.exit, 0) << answer.err;
  const auto json = nlohmann::json::parse(answer.out);
  // (m + p - 1)(F + I + W) = 11 * 3, of which 8 * 3 is work.
  EXPECT_EQ(json["makespan"], 33);
  EXPECT_EQ(json["cost"], 33);
  EXPECT_DOUBLE_EQ(json["bubble_rate"], 9.0 / 33);
  EXPECT_EQ(json["verified"], true);
  ASSERT_EQ(json["devices"].size(), 4);
  for (int device = 0; device < 4; ++device) {
    EXPECT_EQ(json["devices"][device]["busy"], 24);
    EXPECT_EQ(json["devices"][device]["peak_activations"], 4 - device);
  }
}

// The costs come from a simulator of its own that knows latencies between stages and no messages.
TEST(ScheduleCommand, ALatencyCostsItselfHoweverLong) {
  const std::pair<const char*, double> cases[] = {{"0.25", 26.75}, {"1", 38.75}, {"40", 662.75}};
  for (const auto& [latency, expected] : cases) {
    const Answer answer =
        run_cleave("schedule zb-h1 --stages 4 --microbatches 8 --json --cost f=1,i=1,w=0.25,comm=" +
                   std::string(latency));
    ASSERT_EQ(answer.exit, 0) << answer.err;
    EXPECT_DOUBLE_EQ(nlohmann::json::parse(answer.out)["cost"], expected) << latency;
  }
}

TEST(ScheduleCommand, DrawsThePictureByDefault) {
  const Answer answer = run_cleave("schedule 1f1b --stages 2 --microbatches 2");

  ASSERT_EQ(answer.exit, 0) << answer.err;
  EXPECT_EQ(answer.out,
            "1f1b: makespan 9 · bubble 33.3 %\n"
            "0  F0 F1 ......B0    ...B1    \n"
            "1  ...F0 B0    F1 B1    ......\n"
            "   F forward   B full backward   . idle\n"
            "\n"
            "schedule  makespan  cost   bubble  peak\n"
            "1f1b             9     9  33.33 %     2\n"
            "\n"
            "device  busy   share  peak\n"
            "0          6  66.7 %     2\n"
            "1          6  66.7 %     1\n");
}

TEST(ScheduleCommand, ComparesSeveralKinds) {
  const Answer answer = run_cleave("schedule 1f1b,zb-h1 --stages 4 --microbatches 8 --json");

  ASSERT_EQ(answer.exit, 0) << answer.err;
  const auto list = nlohmann::json::parse(answer.out)["schedules"];
  ASSERT_EQ(list.size(), 2);
  EXPECT_EQ(list[1]["schedule"], "zb-h1");
  EXPECT_LT(list[1]["cost"], list[0]["cost"]);
}

TEST(ScheduleCommand, WritesEveryFormat) {
  const TemporaryDirectory directory;
  const std::string shape = "schedule zbv --stages 4 --microbatches 8 ";
  const std::vector<std::pair<std::string, std::string>> begins = {
      {"a.svg", "<svg "}, {"a.html", "<!doctype html>"}, {"a.json", "{\"displayTimeUnit\""}};
  for (const auto& [name, begin] : begins) {
    const Answer answer = run_cleave(shape + "--output " + directory.path(name));
    EXPECT_EQ(answer.exit, 0) << answer.err;
    EXPECT_EQ(answer.out, "");
    EXPECT_TRUE(testing::read_text(directory.path(name)).starts_with(begin)) << name;
  }
  EXPECT_TRUE(run_cleave(shape + "--format csv").out.starts_with("0F0,0F1,")) << "csv";
}

TEST(ScheduleCommand, CostsPerStage) {
  const TemporaryDirectory directory;
  const std::string costs = directory.write("costs.csv",
                                            "# the second stage is slow\n"
                                            "f, i, w, comm\n"
                                            "1, 1, 1, 0.5\n"
                                            "2, 2, 2,\n");

  const Answer answer =
      run_cleave("schedule gpipe --stages 2 --microbatches 1 --json --costs " + costs);

  ASSERT_EQ(answer.exit, 0) << answer.err;
  const auto json = nlohmann::json::parse(answer.out);
  EXPECT_EQ(json["makespan"], 1 + 0.5 + 2 + 4 + 0.5 + 2);
  EXPECT_EQ(json["devices"][1]["busy"], 6);
}

TEST(ScheduleCommand, AutoIsNoWorseThanTheNamedThatFit) {
  const std::string costs =
      " --costs " + testing::source_path("examples/uneven_costs.csv") + " --json";
  const std::string shape = " --stages 4 --microbatches 8 --memory ";
  for (const char* memory : {"2", "3", "4", "7", "8"}) {
    const Answer answer = run_cleave("schedule auto,1f1b,zb-h1,zb-h2" + (shape + memory) + costs);

    ASSERT_EQ(answer.exit, 0) << answer.err;
    const auto json = nlohmann::json::parse(answer.out);
    const auto list = json.contains("schedules") ? json["schedules"] : nlohmann::json{json};
    ASSERT_EQ(list[0]["schedule"], "auto");
    for (const auto& each : list) {
      EXPECT_LE(list[0]["cost"], each["cost"].get<double>() + 1e-9) << memory << each["schedule"];
      for (const auto& device : each["devices"]) {
        EXPECT_LE(device["peak_activations"].get<double>(), std::stod(memory));
      }
    }
  }
}

TEST(ScheduleCommand, RefusesWhatDoesNotFitInTheMemory) {
  const Answer answer = run_cleave("schedule 1f1b --stages 4 --microbatches 8 --memory 3");

  EXPECT_EQ(answer.exit, 3);
  EXPECT_EQ(answer.out, "");
  EXPECT_EQ(answer.err,
            "cleave: 1f1b keeps 4 microbatches alive on device 0, more than --memory 3; raise "
            "--memory, or try auto, v-half or v-min\n");
  EXPECT_EQ(run_cleave("schedule 1f1b --stages 4 --microbatches 8 --memory 4").exit, 0);
  EXPECT_EQ(run_cleave("schedule auto --stages 4 --microbatches 8 --memory 0.5").exit, 3);
}

struct Mistake {
  std::string arguments;
  std::string says;
};

TEST(ScheduleCommand, NamesTheMistakeInOneSentence) {
  const TemporaryDirectory directory;
  const std::string short_costs = directory.write("short.csv", "f,i,w\n1,1,1\n");
  const std::string bad_costs = directory.write("bad.csv", "f,i,w\n1,x,1\n1,1,1\n");
  const std::string shape = " --stages 2 --microbatches 2 ";
  const std::vector<Mistake> mistakes = {
      {"1f1b --stages 0 --microbatches 2", "--stages 0 must be at least 1"},
      {"1f1b --stages 2 --microbatches -1", "--microbatches -1 must be at least 1"},
      {"1f1b --stages two --microbatches 2", "--stages"},
      {"1f1b --stages 99999999999 --microbatches 2", "--stages"},
      {"1f1b --stages 1000000 --microbatches 1000000", "1000000 devices"},
      {"1f1b --stages 2", "needs --stages and --microbatches"},
      {"1f2b" + shape, "unknown schedule '1f2b'; did you mean 1f1b?"},
      {"1f1b,,zbv" + shape, "unknown schedule ''; give a file that exists or one of gpipe,"},
      {"mine.txt" + shape, "unknown schedule 'mine.txt'; give a file that exists"},
      {"1f1b" + shape + "--chunks -1", "--chunks -1"},
      {"1f1b" + shape + "--chunks 2", "schedule 1f1b has 1 stage on each device, not 2"},
      {"1f1b" + shape + "--cost f=-1", "--cost f=-1 is not a number from 0 to 1e100"},
      {"1f1b" + shape + "--cost f=nan", "--cost f=nan is not a number from 0 to 1e100"},
      {"1f1b" + shape + "--cost f=1e999", "--cost f=1e999 is not a number from 0 to 1e100"},
      {"1f1b" + shape + "--cost f=1e308", "--cost f=1e308 is not a number from 0 to 1e100"},
      {"1f1b" + shape + "--cost f=1,f=2", "--cost gives f twice"},
      {"1f1b" + shape + "--cost g=1", "--cost does not know 'g=1'"},
      {"1f1b" + shape + "--cost f=0,i=0,w=0", "leaves nothing to do"},
      {"1f1b" + shape + "--costs " + short_costs, "has costs for 1 stages"},
      {"1f1b" + shape + "--costs " + bad_costs, "bad.csv:2: 'x' is not a cost"},
      {"1f1b" + shape + "--costs nowhere.csv", "cannot read nowhere.csv"},
      {"1f1b" + shape + "--cost f=2 --costs " + bad_costs, "exclude each other"},
      {"1f1b" + shape + "--memory 0", "--memory 0 must be more than 0"},
      {"zbv" + shape + "--graph \"0>1\"", "schedule zbv is made for a chain of stages"},
      {"1f1b" + shape + "--graph \"0-1>2\"", "'0-1>2' is no edge"},
      {"1f1b" + shape + "--graph \"0>1,1>0\"", "form a cycle"},
      {"1f1b" + shape + "--graph nowhere.txt", "cannot read nowhere.txt"},
      {"1f1b --microbatches 4 --graph \"0>1,1>9\"",
       "no edge names stage 2, and the edges go up to 9; number the stages from 0 on without a "
       "gap"},
      {"auto --microbatches 4 --graph \"1>2\"", "no edge names stage 0"},
      {"gpipe --microbatches 4 --graph \"0>2147483647\"", "no edge names stage 1"},
      {"1f1b --stages 3 --microbatches 4 --graph \"0>1\"",
       "no edge names stage 2, and --stages gives 3"},
      {"1f1b" + shape + "--frozen 7", "stage 7 cannot be frozen"},
      {"1f1b" + shape + "--frozen 0,1", "nothing is left to learn"},
      {"1f1b" + shape + "--frozen all", "'all' is no stage"},
      {"1f1b" + shape + "--absent 0:9", "cannot be absent from microbatch 9"},
      {"1f1b" + shape + "--absent 0", "'0' is no stage:microbatch"},
      {"1f1b" + shape + "--absent 1:0",
       "stage 0 takes part in microbatch 0, but nobody that reads it does"},
      {"1f1b" + shape + "--replicas 0", "'0' is no stage:replicas"},
      {"1f1b" + shape + "--replicas 7:2", "there is no stage 7"},
      {"1f1b" + shape + "--replicas 0:3,1:2", "does not divide the 3 of another"},
      {"zbv" + shape + "--replicas 0:2",
       "schedule zbv is made for stages with one number of replicas"},
      {"1f1b" + shape + "--format png", "unknown format 'png'"},
      {"1f1b,zbv" + shape + "--format text", "take one schedule"},
      {"1f1b" + shape + "--format svg --final", "--final says which program"},
      {"1f1b" + shape + "--json --format svg", "both want standard output"},
      {"1f1b" + shape + "--output a.png", "no format ends in .png"},
      {"1f1b" + shape + "--output /nowhere/a.svg", "cannot write /nowhere/a.svg"},
      {shape, "kind is required"},
  };
  for (const auto& [arguments, says] : mistakes) {
    const Answer answer = run_cleave("schedule " + arguments);
    EXPECT_EQ(answer.exit, 2) << arguments;
    EXPECT_EQ(answer.out, "") << arguments;
    EXPECT_NE(answer.err.find(says), std::string::npos) << arguments << "\n" << answer.err;
    EXPECT_EQ(std::ranges::count(answer.err, '\n'), 1) << answer.err;
  }
}

TEST(BenchScheduleCommand, MeasuresEveryPhase) {
  const Answer answer = run_cleave("bench schedule --kind gpipe --json");

  ASSERT_EQ(answer.exit, 0) << answer.err;
  const auto results = nlohmann::json::parse(answer.out)["results"];
  ASSERT_GE(results.size(), 4);
  const double smallest = results.front()["instructions"];
  EXPECT_GE(results.back()["instructions"].get<double>(), 100 * smallest);
  for (const char* phase : {"generate", "lower", "verify", "simulate", "total"}) {
    EXPECT_GT(results[0]["instructions_per_second"][phase], 0) << phase;
  }
}

TEST(EveryVerb, HasHelpWithAnExample) {
  for (const char* verb : {"schedule", "verify", "bench schedule"}) {
    const Answer answer = run_cleave(std::string(verb) + " --help");
    EXPECT_EQ(answer.exit, 0) << verb;
    EXPECT_NE(answer.out.find("Example"), std::string::npos) << verb;
  }
}

}  // namespace
}  // namespace cleave
