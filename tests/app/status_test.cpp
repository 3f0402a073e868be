// What somebody sees who asks a server how its run goes, while it goes on and over a new plan.

#include <thread>

#include "app/served.h"
#include <gtest/gtest.h>

namespace cleave {
namespace {

using nlohmann::json;
using testing::kServedPatience;
using testing::Process;
using testing::Served;
using testing::TinyRun;

/// The status once `is_so` of it.
template <class Condition>
json status_when(Served& served, const Condition& is_so) {
  json status;
  for (int look = 0; look < 600; ++look) {
    status = served.status("");
    if (is_so(status)) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return status;
}

std::vector<std::string> stages_of(const json& status) {
  std::vector<std::string> stages;
  for (const json& device : status["devices"])
    if (device["state"] == "running") stages.push_back(device["stages"]);
  return stages;
}

TEST(Status, ShowsWhatEachDeviceHasAndWhatHappenedOverANewPlan) {
  const TinyRun run({"train.steps=100000", "train.copies=1"});
  Served served(run, {"parallel.pipeline=2"}, {"--insecure"});
  EXPECT_EQ(served.status("")["waits_for"], json::array({"1 device to join"}));
  Process& weak = served.join("weak");
  const json before = status_when(served, [](const json& now) { return now["step"] > 0; });
  EXPECT_EQ(before["state"], "running");
  EXPECT_EQ(before["plan"], 1);
  EXPECT_EQ(before["waits_for"], json::array());
  EXPECT_EQ(stages_of(before),
            (std::vector<std::string>{"embedding .. block 1", "block 2 .. head"}));
  EXPECT_GT(before["loss"], 0);

  weak.signal(SIGKILL);
  const json after = status_when(
      served, [](const json& now) { return now["plan"] == 2 && now["state"] == "running"; });
  EXPECT_EQ(after["plan"], 2);
  EXPECT_EQ(stages_of(after), std::vector<std::string>{"embedding .. head"});
  ASSERT_EQ(after["events"].size(), 2u) << after;
  EXPECT_EQ(after["events"][1], "device 1 (weak) is lost: closed by the other end");
  served.server().signal(SIGINT);
  EXPECT_EQ(served.server().wait(kServedPatience).exit, 0);
  const std::string log = testing::read_text(run.out() + "/log.jsonl");
  for (const char* phase :
       {"\"event\":\"recovered\"", " after the notice: ", " until all had given up their step, ",
        " to plan, ", " for the state, ", " for the step\""})
    EXPECT_NE(log.find(phase), std::string::npos) << phase;
  const std::string page = testing::read_text(run.out() + "/run.html");
  EXPECT_NE(page.find("device 1 (weak) is lost: closed by the other end"), std::string::npos);
  EXPECT_NE(served.server().err().find("cleave serve: device 0 held "), std::string::npos);
  EXPECT_EQ(served.server().err().find(" were planned"), std::string::npos);
}

}  // namespace
}  // namespace cleave
