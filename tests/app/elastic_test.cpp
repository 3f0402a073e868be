// Runs over TCP that lose, gain and let go of devices, and end with the bits of the undisturbed
// one.

#include <csignal>
#include <fstream>
#include <sstream>
#include <thread>

#include "app/served.h"
#include <gtest/gtest.h>
#include <sys/resource.h>

namespace cleave {
namespace {

using nlohmann::json;
using testing::Answer;
using testing::kServedPatience;
using testing::Process;
using testing::Served;
using testing::TinyRun;
using Keys = TinyRun::Keys;

const Keys kLong = {"train.steps=80", "train.checkpoint_every=15", "train.lr=1e-3"};

/// Lines of the run's log that are of events.
std::vector<json> events_of(const TinyRun& run) {
  std::vector<json> events;
  std::istringstream log(testing::read_text(run.out() + "/log.jsonl"));
  for (std::string line; std::getline(log, line);) {
    const json parsed = json::parse(line);
    if (parsed.contains("event")) events.push_back(parsed);
  }
  return events;
}

/// How many steps the log has; they are in order and none is missing, whatever was done again.
std::int64_t logged_steps(const TinyRun& run) {
  std::int64_t steps = 0;
  std::istringstream log(testing::read_text(run.out() + "/log.jsonl"));
  for (std::string line; std::getline(log, line);) {
    const json parsed = json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!parsed.contains("step")) continue;
    EXPECT_EQ(parsed["step"], ++steps);
  }
  return steps;
}

bool await_step(const TinyRun& run, Served& served, std::int64_t step) {
  const auto deadline = std::chrono::steady_clock::now() + kServedPatience;
  while (std::chrono::steady_clock::now() < deadline) {
    std::ifstream log(run.out() + "/log.jsonl");
    std::int64_t steps = 0;
    for (std::string line; std::getline(log, line);) steps += line.starts_with("{\"step\"") ? 1 : 0;
    if (steps >= step) return true;
    if (served.server().wait(std::chrono::seconds(0)).exit != -1) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

bool has_event(const std::vector<json>& events, const std::string& kind, const std::string& text) {
  return std::ranges::any_of(events, [&](const json& event) {
    return event["event"] == kind &&
           event["text"].get<std::string>().find(text) != std::string::npos;
  });
}

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

TEST(ElasticCopies, LetDevicesComeAndGoWithoutACheckpoint) {
  const TinyRun alone(kUnsaved), run(kUnsaved);
  Served served(run, {"parallel.pipeline=2", "train.copies=1"}, {"--insecure"});
  Process& guest = served.join("guest");
  ASSERT_TRUE(await_step(run, served, 5)) << served.server().err();
  served.join("newcomer");
  ASSERT_TRUE(served.server().prints("plan 2 for 3 devices", kServedPatience));
  ASSERT_TRUE(served.server().prints("after the notice", kServedPatience));
  guest.signal(SIGINT);
  EXPECT_EQ(guest.wait(kServedPatience).exit, 0);
  EXPECT_EQ(served.report()["weights"], alone.report()["weights"]);
  const std::vector<json> events = events_of(run);
  EXPECT_TRUE(has_event(events, "left", "(guest) has left"));
  EXPECT_TRUE(has_event(events, "state", "from the memory of its devices"));
  EXPECT_FALSE(has_event(events, "state", "checkpoints"));
}

// Two devices of 850 KiB hold the model, one does not: weights, gradients and moments are 964 KiB.
TEST(ElasticFaults, SaysWhatIsMissingWhenTheRestCannotHoldTheModel) {
  for (const bool waits : {false, true}) {
    const TinyRun run(kLong);
    Keys flags = {"--insecure"};
    if (waits) flags.push_back("--wait");
    Served served(run, {"parallel.pipeline=2", "devices.memory=\"850KiB\""}, flags);
    Process& device = served.join("weak");
    ASSERT_TRUE(await_step(run, served, 5)) << served.server().err();
    device.signal(SIGKILL);
    device.wait(kServedPatience);
    if (!waits) {
      const Answer answer = served.server().wait(kServedPatience);
      EXPECT_EQ(answer.exit, 4);
      EXPECT_NE(answer.err.find("1 device cannot hold the model: none of "), std::string::npos)
          << answer.err;
      continue;
    }
    ASSERT_TRUE(served.server().prints("; waiting for more", kServedPatience));
    EXPECT_EQ(served.status("")["state"], "planning");
    served.join("strong");
    const TinyRun alone(kLong);
    EXPECT_EQ(served.report()["weights"], alone.report()["weights"]);
  }
}

// The state after the last checkpoint went with the device; all steps until there are kept.
TEST(ElasticFaults, EndsWhenItIsToldToWhileItWaitsForDevices) {
  const TinyRun alone(kLong);
  const json undisturbed = alone.report();
  for (const int signal : {SIGTERM, SIGINT}) {
    const TinyRun run(kLong);
    const Keys keys = {"parallel.pipeline=2", "devices.memory=\"850KiB\""};
    Served served(run, keys, {"--insecure", "--wait"});
    Process& weak = served.join("weak");
    ASSERT_TRUE(await_step(run, served, 20)) << served.server().err();
    weak.signal(SIGKILL);
    ASSERT_TRUE(served.server().prints("; waiting for more", kServedPatience));
    EXPECT_NE(served.status("")["waits_for"].dump().find("1 device cannot hold the model"),
              std::string::npos);
    served.server().signal(signal);
    const Answer answer = served.server().wait(kServedPatience);
    EXPECT_EQ(answer.exit, 4) << answer.err;
    EXPECT_NE(answer.err.find(
                  "cleave: stopped while it waited for devices; cleave serve --resume goes on\n"),
              std::string::npos)
        << answer.err;

    Served again(run, keys, {"--insecure", "--resume"});
    again.join("strong");
    EXPECT_EQ(again.report()["weights"], undisturbed["weights"]);
    const std::string said = again.server().err();
    const std::size_t resumed = said.find("resumed after step ");
    ASSERT_NE(resumed, std::string::npos) << said;
    EXPECT_GE(std::stoi(said.substr(resumed + 19)), 15);
    EXPECT_EQ(logged_steps(run), 80);
  }
}

// Whoever sends SIGUSR1, as batch systems do, need not wait until enough have come.
TEST(ElasticFaults, EndsWhenItIsToldToBeforeItsDevicesHaveCome) {
  const TinyRun run(kLong);
  Served served(run, {"parallel.pipeline=3"}, {"--insecure"});
  Process& early = served.join("early");
  ASSERT_TRUE(early.prints("waiting for 1 more", kServedPatience)) << early.err();
  EXPECT_EQ(served.status("")["waits_for"], json::array({"1 device to join"}));
  served.server().signal(SIGUSR1);
  const Answer answer = served.server().wait(kServedPatience);
  EXPECT_EQ(answer.exit, 4) << answer.err;
  EXPECT_NE(answer.err.find("stopped while it waited for devices"), std::string::npos);
  EXPECT_EQ(early.wait(kServedPatience).exit, 4) << early.err();
}

/// So that the next allocation of `bytes` fails, as where there is no more memory.
void allow_no_more(pid_t pid, std::int64_t bytes) {
  std::istringstream status(testing::read_text("/proc/" + std::to_string(pid) + "/status"));
  std::int64_t size = 0;  // KiB
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmSize:"))
      size = std::stoll(line.substr(line.find_first_of("0123456789")));
  const rlimit limit{.rlim_cur = static_cast<rlim_t>(size * 1024 + bytes),
                     .rlim_max = RLIM_INFINITY};
  ASSERT_EQ(prlimit(pid, RLIMIT_AS, &limit, nullptr), 0);
}

// Each of three devices needs about 70 MiB.
TEST(ElasticFaults, GoesOnWithoutADeviceThatHasLessMemoryThanItOffered) {
  const Keys keys = {"model.hidden=512", "train.steps=4", "train.lr=1e-4"};
  const TinyRun alone(keys), run(keys);
  Served served(run, {"parallel.pipeline=3"}, {"--insecure"});
  Process liar(testing::cleave_command(
      {"join", served.address(), "--insecure", "--name", "liar", "--memory", "64GiB"}));
  ASSERT_TRUE(liar.prints("waiting for 1 more", kServedPatience)) << liar.err();
  allow_no_more(liar.pid(), 40 << 20);
  served.join("honest");
  EXPECT_EQ(served.report()["weights"], alone.report()["weights"]);
  EXPECT_TRUE(
      has_event(events_of(run), "lost", "(liar) is lost: the system does not give a device its "))
      << served.server().err();
  EXPECT_EQ(liar.wait(kServedPatience).exit, 3) << liar.err();
}

}  // namespace
}  // namespace cleave
