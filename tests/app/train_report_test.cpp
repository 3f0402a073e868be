// What a run says about itself at its end.

#include <fstream>
#include <iterator>
#include <map>
#include <set>

#include "app/tiny_run.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace cleave {
namespace {

using nlohmann::json;
using testing::TinyRun;

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(TrainReport, TracesEveryComputationAsMeasuredAndAsPredicted) {
  const TinyRun run({"parallel.pipeline=2", "train.microbatch=1", "train.steps=2"});
  const std::string path = run.path("step.json");

  const json report = run.report({}, {"--trace", path});
  const json trace = json::parse(text_of(path));

  EXPECT_GT(report["predicted_step_seconds"], 0) << report;
  std::map<int, std::set<std::string>> computed;  // [timeline]
  std::map<int, std::string> names;
  for (const json& event : trace["traceEvents"]) {
    const std::string name = event["name"];
    if (name == "process_name") names[event["pid"]] = event["args"]["name"];
    if (event["ph"] == "X" && event["args"]["stage"] >= 0 && !name.starts_with("wait "))
      computed[event["pid"]].insert(name);
  }
  EXPECT_EQ(names[0], "1f1b, measured");
  EXPECT_EQ(names[1], "1f1b, predicted");
  EXPECT_GE(computed[1].size(), 2u * 2 * 4)
      << "F and B of 4 microbatches on 2 devices, in segments";
  EXPECT_EQ(computed[0], computed[1]);
}

// Without sequence parallelism one collective is on its way at a time, so they add up.
TEST(TrainReport, TracesWhatLayersExchangeAsItIsReported) {
  const TinyRun run({"parallel.tensor=2", "devices.count=2", "train.steps=1"});
  const std::string path = run.path("step.json");

  const json report = run.report({}, {"--trace", path});
  const json trace = json::parse(text_of(path));

  std::map<int, double> seconds, waited, bytes;  // [device]
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] != "b" || event["cat"] != "collective") continue;
    const json& args = event["args"];
    const int device = args["device"];
    seconds[device] += 1e-6 * (args["waited_us"].get<double>() + args["hidden_us"].get<double>());
    waited[device] += 1e-6 * args["waited_us"].get<double>();
    bytes[device] += args["bytes"].get<double>();
  }
  ASSERT_EQ(seconds.size(), 2u);
  for (const int device : {0, 1}) {
    const json& of = report["devices"][device];
    EXPECT_EQ(bytes[device],
              of["sent"]["reduce"].get<double>() + of["sent"]["gather"].get<double>());
    // The trace has nanoseconds.
    EXPECT_NEAR(seconds[device], of["tensor"], 1e-4 * seconds[device]);
    EXPECT_NEAR(1 - waited[device] / seconds[device], of["tensor_hidden"], 1e-4);
  }
}

// Of one step, so that the medians belong together.
TEST(TrainReport, CountsWaitsInsideLayersAsWaits) {
  const TinyRun run({"parallel.tensor=2", "devices.count=2", "train.steps=1"});

  const json report = run.report();

  const double step = report["step_seconds"];
  double busy = 0;
  for (const json& of : report["devices"]) {
    const double waited = of["tensor"].get<double>() * (1 - of["tensor_hidden"].get<double>());
    EXPECT_GT(waited, 0);
    EXPECT_GE(of["wait"], waited);
    EXPECT_GT(of["busy"], 0);
    busy += of["busy"].get<double>();
  }
  EXPECT_NEAR(report["idle"], 1 - busy / (2 * step), 1e-9);
}

// One meaning of the word: of one step, what the report says and what its picture says are equal.
TEST(TrainReport, HasTheBubbleOfItsTimeline) {
  const TinyRun run({"parallel.pipeline=2", "train.steps=1"});
  const std::string page = run.path("step.html");

  const json report = run.report({}, {"--trace", page});

  std::ifstream file(page);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::string key = "\"bubble_rate\":";
  const std::size_t at = text.find(key);  // the measured step comes first
  ASSERT_NE(at, std::string::npos);
  EXPECT_NEAR(std::stod(text.substr(at + key.size())), report["bubble"], 1e-4);
  EXPECT_GT(report["bubble"], 0);
}

TEST(TrainReport, HasARangeAroundThePrediction) {
  const json report = TinyRun({"parallel.pipeline=2", "train.steps=2"}).report();

  const json& range = report["predicted_range"];
  EXPECT_LT(range[0], report["predicted_step_seconds"]);
  EXPECT_GT(range[1], report["predicted_step_seconds"]);
  EXPECT_GE(report["others"], 0);
  EXPECT_LE(report["others"], 1);
}

// Two microbatches of 3 ms on each device; the second tensor group is as slow as device 3.
TEST(TrainReport, CoversTensorGroupsOfEmulatedDevices) {
  const TinyRun run({"devices.count=4", "parallel.pipeline=2", "parallel.tensor=2",
                     "parallel.partition=[2, 2]", "train.microbatch=2", "train.steps=2",
                     "devices.speed=[1, 1, 1, 0.5]", "devices.emulate=\"f=1ms,i=1ms,w=1ms\""});

  const json report = run.report();

  EXPECT_EQ(report["steps"], 2);
  EXPECT_TRUE(report["loss"].is_null());
  ASSERT_EQ(report["devices"].size(), 4u);
  EXPECT_GE(report["predicted_step_seconds"], 0.012);
  for (const int device : {0, 1}) EXPECT_GE(report["devices"][device]["busy"], 0.006);
  for (const int device : {2, 3}) EXPECT_GE(report["devices"][device]["busy"], 0.012);
}

TEST(TrainReport, OfEmulatedDevicesHasWhatTheySendAndWouldHold) {
  const TinyRun run({"parallel.pipeline=2", "parallel.data=2", "train.steps=2"});

  const json real = run.report();
  const json emulated = run.report({"devices.emulate=\"f=1ms,i=1ms,w=1ms\""});

  ASSERT_EQ(emulated["devices"].size(), 4u);
  for (std::size_t d = 0; d < 4; ++d) {
    const json& of = emulated["devices"][d];
    EXPECT_EQ(of["parameters"], real["devices"][d]["parameters"]);
    EXPECT_EQ(of["sent"], of["planned_sent"]);
    EXPECT_EQ(of["sent"]["messages"], real["devices"][d]["sent"]["messages"]);
    EXPECT_GT(of["bytes_sent"], 0);
  }
}

TEST(TrainReport, DrawsBothTimelinesOnOnePage) {
  const TinyRun run({"parallel.pipeline=2", "train.steps=1"});

  EXPECT_EQ(run.train({}, {"--trace", run.path("step.html")}).exit, 0);

  const std::string page = text_of(run.path("step.html"));
  EXPECT_NE(page.find("1f1b, measured"), std::string::npos);
  EXPECT_NE(page.find("1f1b, predicted"), std::string::npos);
}

TEST(TrainReport, RefusesATraceOfUnknownKindBeforeTraining) {
  const TinyRun run;
  const testing::Answer answer = run.train({}, {"--trace", "step.txt"});
  EXPECT_EQ(answer.exit, 2);
  EXPECT_EQ(answer.err,
            "cleave: --trace step.txt must end in .json (Chrome, Perfetto), .html or .svg\n");
}

}  // namespace
}  // namespace cleave
