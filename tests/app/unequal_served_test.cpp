// Runs over TCP whose devices are not alike: planned when they are here, by what they offer and by
// the links between them.

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
using Keys = TinyRun::Keys;

const Keys kOpen = {"parallel.pipeline=2", "parallel.zero=auto", "train.microbatch=1"};

/// The layers of each stage, as the server names its first plan.
std::string layers_of(const std::string& said) {
  const std::size_t plan = said.find("plan 1 for 2 devices: ");
  const std::size_t at = said.find(", layers ", plan);
  if (plan == std::string::npos || at == std::string::npos) return "none in: " + said;
  const std::size_t begin = at + std::string(", layers ").size();
  return said.substr(begin, said.find_first_not_of("0123456789+", begin) - begin);
}

TEST(UnequalDevices, HoldAsManyLayersAsTheirSpeedAllows) {
  const TinyRun alone, run, other;
  const json undisturbed = alone.report(kOpen);
  Served slow(run, kOpen, {"--insecure"});
  slow.join("slow", {"--speed", "0.1"});
  EXPECT_EQ(slow.report()["weights"], undisturbed["weights"]);
  EXPECT_EQ(layers_of(slow.server().err()), "4+0");
  Served fast(other, kOpen, {"--insecure"});
  fast.join("fast", {"--speed", "10"});
  EXPECT_EQ(fast.report()["weights"], undisturbed["weights"]);
  EXPECT_EQ(layers_of(fast.server().err()), "0+4");
}

TEST(UnequalDevices, HoldWhatTheirMemoryAllows) {
  const TinyRun alone, run;
  Served served(run, kOpen, {"--insecure"});
  served.join("small", {"--memory", "300KiB"});
  const json report = served.report();
  EXPECT_EQ(report["weights"], alone.report(kOpen)["weights"]);
  EXPECT_LE(report["devices"][1]["planned_bytes"], 300 * 1024);
  for (const json& device : report["devices"])
    EXPECT_EQ(device["peak_bytes"], device["planned_bytes"]);
}

TEST(UnequalDevices, EndARunThatNobodyCanHoldWithWhatIsMissing) {
  const TinyRun run;
  Served served(run, {"parallel.pipeline=2", "parallel.zero=auto", "devices.memory=\"1MiB\""},
                {"--insecure"});
  Process& small = served.join("small", {"--memory", "10KiB"});
  const testing::Answer answer = served.server().wait(kServedPatience);
  EXPECT_EQ(answer.exit, 3) << answer.err;
  EXPECT_NE(answer.err.find("on device 1, which has 10.0 KiB"), std::string::npos) << answer.err;
  EXPECT_NE(small.wait(kServedPatience).exit, 0);
}

TEST(UnequalDevices, AndTheirLinksAreInTheStatus) {
  const TinyRun run({"train.steps=2000"});
  Served served(run, {"parallel.pipeline=3"}, {"--insecure"});
  served.join("one");
  served.join("two");
  json status;
  for (int look = 0; look < 600; ++look) {
    status = served.status("");
    if (status["step"] > 0) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  ASSERT_EQ(status["links"].size(), 3u) << status;
  for (const json& link : status["links"]) {
    EXPECT_EQ(link["way"], "direct");
    EXPECT_GT(link["latency_seconds"], 0);
    EXPECT_GT(link["seconds_per_byte"], 0);
  }
  served.server().signal(SIGINT);
  served.server().wait(kServedPatience);
}

}  // namespace
}  // namespace cleave
