// Runs over TCP that lose, gain and let go of devices, and end with the bits of the undisturbed
// one.

#include <csignal>
#include <memory>

#include "app/elastic_log.h"
#include "app/served.h"
#include <gtest/gtest.h>

namespace cleave {
namespace {

using nlohmann::json;
using testing::Answer;
using testing::await_step;
using testing::events_of;
using testing::has_event;
using testing::kServedPatience;
using testing::logged_steps;
using testing::Process;
using testing::Served;
using testing::TinyRun;
using Keys = TinyRun::Keys;

const Keys kLong = {"train.steps=80", "train.checkpoint_every=15", "train.lr=1e-3"};

TEST(ElasticSameBits, WithoutADeviceThatWasKilledWhileAnotherComes) {
  const TinyRun alone(kLong), run(kLong);
  const json undisturbed = alone.report();
  Served served(run, {"parallel.pipeline=3"}, {"--insecure", "--dashboard=0"});
  served.join("good");
  Process& weak = served.join("weak");
  ASSERT_TRUE(await_step(run, served, 20)) << served.server().err();
  weak.signal(SIGKILL);
  EXPECT_EQ(weak.wait(kServedPatience).exit, 128 + SIGKILL);
  // Whether it comes in time for the next plan, for the one after it or too late must not matter.
  const Process late(testing::cleave_command({"join", served.address(), "--insecure"}));
  const json report = served.report();
  EXPECT_EQ(report["weights"], undisturbed["weights"]);
  EXPECT_EQ(report["steps"], 80);
  EXPECT_EQ(logged_steps(run), 80);
  const std::vector<json> events = events_of(run);
  EXPECT_TRUE(has_event(events, "lost", "(weak) is lost: closed by the other end"));
  EXPECT_TRUE(has_event(events, "plan", "plan 2 for "));
  // One page shows all plans, and what happened between them.
  const std::string said = served.server().err();
  EXPECT_EQ(said.find("dashboard: "), said.rfind("dashboard: ")) << said;
  const std::string page = testing::read_text(run.out() + "/run.html");
  EXPECT_NE(page.find("(weak) is lost: closed by the other end"), std::string::npos);
  EXPECT_NE(page.find("plan 2 for "), std::string::npos);
  for (const json& device : report["devices"])
    EXPECT_EQ(device["peak_bytes"], device["planned_bytes"]);
}

TEST(ElasticSameBits, WithoutADeviceThatWasStoppedAndGoesOn) {
  const TinyRun alone(kLong), run(kLong);
  Served served(run, {"parallel.data=2", "numerics.data_shards=2"}, {"--insecure"});
  Process slow(testing::cleave_command({"join", served.address(), "--insecure", "--name", "slow"}));
  ASSERT_TRUE(await_step(run, served, 5)) << served.server().err();
  slow.signal(SIGSTOP);
  ASSERT_TRUE(served.server().prints("(slow) is lost: silent for", kServedPatience));
  // It finds its connection closed, and joins again; whether it comes before the run ends must not
  // matter.
  slow.signal(SIGCONT);
  EXPECT_EQ(served.report()["weights"], alone.report({"numerics.data_shards=2"})["weights"]);
}

TEST(ElasticSameBits, WithoutADeviceThatLeaves) {
  const TinyRun alone(kLong), run(kLong);
  Served served(run, {"parallel.pipeline=2"}, {"--insecure"});
  Process& device = served.join("guest");
  ASSERT_TRUE(await_step(run, served, 5)) << served.server().err();
  device.signal(SIGINT);
  const Answer left = device.wait(kServedPatience);
  EXPECT_EQ(left.exit, 0) << left.err;
  EXPECT_NE(left.out.find(" leaves: "), std::string::npos) << left.out;
  EXPECT_EQ(served.report()["weights"], alone.report()["weights"]);
  EXPECT_TRUE(has_event(events_of(run), "left", "device 1 (guest) has left"));
}

TEST(ElasticSameBits, AfterTheServerWasKilledAndStartedAgain) {
  const TinyRun alone(kLong), run(kLong);
  Keys keys = {"parallel.pipeline=2"};
  auto served = std::make_unique<Served>(run, keys, Keys{"--insecure"});
  Process device(testing::cleave_command({"join", served->address(), "--insecure"}));
  ASSERT_TRUE(await_step(run, *served, 15)) << served->server().err();
  const std::string address = served->address();
  served->server().signal(SIGKILL);
  served->server().wait(kServedPatience);
  served = std::make_unique<Served>(run, keys, Keys{"--insecure", "--resume", "--listen", address});
  EXPECT_EQ(served->report()["weights"], alone.report()["weights"]);
  const Answer joined = device.wait(kServedPatience);
  EXPECT_EQ(joined.exit, 0) << joined.err;
  EXPECT_NE(joined.err.find("trying to join again"), std::string::npos) << joined.err;
}

// Nothing is saved before the end: whoever had to begin again would say so.
const Keys kUnsaved = {"train.steps=60", "train.checkpoint_every=0", "train.lr=1e-3",
                       "numerics.data_shards=2", "numerics.tensor_shards=2"};

TEST(ElasticCopies, StandInForADeviceThatWasKilled) {
  const TinyRun alone(kUnsaved);
  const json undisturbed = alone.report();
  struct Case {
    Keys keys;
    int devices;
  };
  for (const Case& layout :
       {Case{{"parallel.pipeline=4"}, 4}, Case{{"parallel.data=2", "parallel.zero=1"}, 2},
        Case{{"parallel.pipeline=2", "parallel.tensor=2"}, 4}}) {
    const TinyRun run(kUnsaved);
    Keys keys = layout.keys;
    keys.push_back("train.copies=1");
    Served served(run, keys, {"--insecure"});
    Process& weak = served.join("weak");
    for (int i = 2; i < layout.devices; ++i) served.join("good" + std::to_string(i));
    ASSERT_TRUE(await_step(run, served, 20)) << served.server().err();
    weak.signal(SIGKILL);
    weak.wait(kServedPatience);
    const json report = served.report();
    EXPECT_EQ(report["weights"], undisturbed["weights"]);
    EXPECT_TRUE(has_event(events_of(run), "state", "from the memory of its devices"));
    EXPECT_EQ(logged_steps(run), 60);
    for (const json& device : report["devices"])
      EXPECT_EQ(device["peak_bytes"], device["planned_bytes"]);
  }
}

TEST(ElasticCopies, StandInForTwoDevicesThatWereKilledAtOnce) {
  const TinyRun alone(kUnsaved), run(kUnsaved);
  Served served(run, {"parallel.pipeline=4", "train.copies=2"}, {"--insecure"});
  Process& first = served.join("first");
  Process& second = served.join("second");
  served.join("third");
  ASSERT_TRUE(await_step(run, served, 20)) << served.server().err();
  first.signal(SIGKILL);
  second.signal(SIGKILL);
  first.wait(kServedPatience);
  second.wait(kServedPatience);
  EXPECT_EQ(served.report()["weights"], alone.report()["weights"]);
  const std::vector<json> events = events_of(run);
  EXPECT_TRUE(has_event(events, "state", "from the memory of its devices"));
  EXPECT_FALSE(has_event(events, "state", "after step 0 "));
}

/// How often `part` is in `text`.
int count_of(const std::string& part, const std::string& text) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++count;
  return count;
}

// Nor do they cost a validation each: the run goes on, and evaluates when that is due.
TEST(ElasticCopies, LetDevicesComeAndGoWithoutACheckpoint) {
  Keys keys = kUnsaved;
  keys.push_back("data.validation=0.1");
  const TinyRun alone(keys), run(keys);
  Served served(run, {"parallel.pipeline=2", "train.copies=1"}, {"--insecure"});
  Process& guest = served.join("guest");
  ASSERT_TRUE(await_step(run, served, 5)) << served.server().err();
  served.join("newcomer");
  ASSERT_TRUE(served.server().prints("plan 2 for 3 devices", kServedPatience));
  ASSERT_TRUE(served.server().prints("after the notice", kServedPatience));
  guest.signal(SIGINT);
  const Answer left = guest.wait(kServedPatience);
  EXPECT_EQ(left.exit, 0) << left.err;
  EXPECT_EQ(left.out.find(" -"), std::string::npos) << "less than nothing sent: " << left.out;
  const auto report = served.report();
  EXPECT_EQ(report["weights"], alone.report()["weights"]);
  for (const auto& device : report["devices"])
    EXPECT_EQ(device["sent"], device["planned_sent"]) << "copies travel beside the step";
  const std::vector<json> events = events_of(run);
  EXPECT_TRUE(has_event(events, "left", "(guest) has left"));
  EXPECT_TRUE(has_event(events, "state", "from the memory of its devices"));
  EXPECT_FALSE(has_event(events, "state", "checkpoints"));
  EXPECT_EQ(count_of(": validation loss ", served.server().err()), 1) << served.server().err();
}

}  // namespace
}  // namespace cleave
