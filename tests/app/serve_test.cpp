// Real programs that find each other over the loopback interface, as users start them.

#include <filesystem>
#include <memory>

#include "app/served.h"
#include <gtest/gtest.h>

namespace cleave {
namespace {

using nlohmann::json;
using testing::Answer;
using testing::kServedPatience;
using testing::Process;
using testing::Served;
using testing::TinyRun;
using Keys = TinyRun::Keys;

void expect_planned(const json& report) {
  for (const json& device : report["devices"]) {
    EXPECT_EQ(device["peak_bytes"], device["planned_bytes"]) << device;
    EXPECT_EQ(device["sent"], device["planned_sent"]) << device;
  }
}

TEST(ServeSameBits, OverTcpAsOnOneDevice) {
  const TinyRun run({"numerics.data_shards=2", "numerics.tensor_shards=2"});
  const json alone = run.report();
  const std::vector<Keys> layouts = {{"parallel.pipeline=2"},
                                     {"parallel.pipeline=2", "parallel.data=2", "parallel.zero=1"},
                                     {"parallel.tensor=2", "parallel.data=2", "parallel.zero=3"}};
  for (const Keys& layout : layouts) {
    Served served(run, layout, {"--insecure", "--overwrite"});
    const int devices = layout.size() == 1 ? 2 : 4;
    for (int i = 1; i < devices; ++i) served.join("device" + std::to_string(i));
    const json report = served.report();
    EXPECT_EQ(report["weights"], alone["weights"]);
    EXPECT_EQ(report["loss"], alone["loss"]);
    expect_planned(report);
  }
}

TEST(ServeSameBits, WithTlsAndFilesThatOnlyTheServerSees) {
  const TinyRun run({"parallel.pipeline=2"});
  const Keys first = {"train.steps=9", "train.warmup=2"};
  const TinyRun alone;
  alone.report(first);
  const auto train = [&](const Keys& keys, const Keys& flags, const Keys& join) {
    Served served(run, keys, flags);
    Keys mine = join;
    if (mine.empty()) mine = {"--invitation", served.invite()};
    served.join("phone", mine);
    return served.report();
  };
  train(first, {}, {});
  EXPECT_TRUE(std::filesystem::exists(run.path("phone/key.pem")));
  EXPECT_FALSE(std::filesystem::is_empty(run.path("phone.cache/cleave/files")));

  const json resumed = train({}, {"--resume"}, {"--memory", "1GiB"});
  EXPECT_EQ(resumed["weights"], alone.report({}, {"--resume"})["weights"]);
}

TEST(ServeFaults, ADeviceThatDiesEndsARunThatIsNotElasticByName) {
  const TinyRun run({"parallel.pipeline=2", "train.steps=1000000", "train.elastic=false"});
  Served served(run, {}, {"--insecure"});
  Process& device = served.join("weak");
  ASSERT_TRUE(served.server().prints("step", kServedPatience));
  EXPECT_EQ(served.status("")["state"], "running");
  device.signal(SIGKILL);
  const Answer answer = served.server().wait(kServedPatience);
  EXPECT_EQ(answer.exit, 4) << answer.err;
  EXPECT_NE(answer.err.find("device 1 (weak) is lost"), std::string::npos) << answer.err;
  EXPECT_NE(answer.err.find("device 1 is lost ("), std::string::npos) << answer.err;
}

TEST(ServeFaults, RefusalsAreToldToTheDevice) {
  const TinyRun run({"parallel.pipeline=2"});
  Served served(run, {}, {});
  const Answer stranger = served.join("stranger").wait(kServedPatience);
  EXPECT_EQ(stranger.exit, 2);
  EXPECT_NE(stranger.err.find("pass what it prints with --invitation"), std::string::npos);

  const Answer small = served.join("small", {"--invitation", served.invite(), "--memory", "1KiB"})
                           .wait(kServedPatience);
  EXPECT_EQ(small.exit, 2);
  EXPECT_NE(small.err.find("the server refuses: it offers 1.00 KiB, and device 1 needs"),
            std::string::npos)
      << small.err;
  EXPECT_EQ(served.status(run.path("server"))["devices"][1]["state"], "awaited");
}

}  // namespace
}  // namespace cleave
