// Runs over TCP whose devices are not enough: they say so, wait or end, and go on later.

#include <csignal>
#include <sstream>

#include "app/elastic_log.h"
#include "app/served.h"
#include <gtest/gtest.h>
#include <sys/resource.h>

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

const Keys kSaving = {"train.steps=80", "train.checkpoint_every=15", "train.lr=1e-3"};

// Two devices of 850 KiB hold the model, one does not: weights, gradients and moments are 964 KiB.
TEST(ElasticFaults, SaysWhatIsMissingWhenTheRestCannotHoldTheModel) {
  for (const bool waits : {false, true}) {
    const TinyRun run(kSaving);
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
      EXPECT_NE(answer.err.find("1 device cannot hold the model: the only layout ("),
                std::string::npos)
          << answer.err;
      continue;
    }
    ASSERT_TRUE(served.server().prints("; waiting for more", kServedPatience));
    EXPECT_EQ(served.status("")["state"], "planning");
    served.join("strong");
    const TinyRun alone(kSaving);
    EXPECT_EQ(served.report()["weights"], alone.report()["weights"]);
  }
}

// The state after the last checkpoint went with the device; all steps until there are kept.
TEST(ElasticFaults, EndsWhenItIsToldToWhileItWaitsForDevices) {
  const TinyRun alone(kSaving);
  const json undisturbed = alone.report();
  for (const int signal : {SIGTERM, SIGINT}) {
    const TinyRun run(kSaving);
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
  const TinyRun run(kSaving);
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
