// Jobs that lose a rank under cleave supervise.

#include <csignal>
#include <filesystem>
#include <sstream>
#include <thread>

#include "app/tiny_run.h"
#include <gtest/gtest.h>

namespace cleave {
namespace {

using testing::Answer;
using testing::Process;
using testing::TinyRun;
using Keys = TinyRun::Keys;

constexpr std::chrono::seconds kPatience{100};

const Keys kSaving = {"train.steps=120", "train.checkpoint_every=5", "train.lr=1e-3"};

std::vector<std::string> supervised(const TinyRun& run, const Keys& keys, const Keys& flags) {
  std::vector<std::string> command = testing::cleave_command({"supervise"});
  command.insert(command.end(), flags.begin(), flags.end());
  for (const std::string& word : run.command(keys, {"--json"}, 3)) command.push_back(word);
  return command;
}

/// The ranks of the mpirun that `supervisor` has started.
std::vector<pid_t> ranks_below(const Process& supervisor) {
  std::vector<pid_t> ranks;
  for (const pid_t launcher : supervisor.children()) {
    const std::string task = std::to_string(launcher);
    std::istringstream in(testing::read_text("/proc/" + task + "/task/" + task + "/children"));
    for (pid_t rank = 0; in >> rank;) ranks.push_back(rank);
  }
  return ranks;
}

bool await_checkpoint(const TinyRun& run) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (std::chrono::steady_clock::now() < end) {
    if (std::filesystem::exists(run.out() + "/checkpoints/latest")) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

TEST(MpiSupervise, GoesOnWithOneRankFewerAfterALossToTheSameBits) {
  const TinyRun alone(kSaving), run(kSaving);
  Process supervisor(supervised(run, {"parallel.pipeline=3"}, {}));
  ASSERT_TRUE(await_checkpoint(run)) << supervisor.err();
  const std::vector<pid_t> ranks = ranks_below(supervisor);
  ASSERT_EQ(ranks.size(), 3u);
  ::kill(ranks[2], SIGKILL);
  const Answer answer = supervisor.wait(kPatience);
  ASSERT_EQ(answer.exit, 0) << answer.err;
  EXPECT_NE(answer.err.find("restart 1 of 10 with 2 ranks from the last checkpoint"),
            std::string::npos)
      << answer.err;
  const nlohmann::json report = nlohmann::json::parse(answer.out);
  EXPECT_EQ(report["weights"], alone.report()["weights"]);
  EXPECT_EQ(report["devices"].size(), 2u);
}

TEST(MpiSupervise, EndsWithCodeFourAfterALossTooMany) {
  const TinyRun run(kSaving);
  Process supervisor(supervised(run, {"parallel.pipeline=3"}, {"--restarts", "0"}));
  ASSERT_TRUE(await_checkpoint(run)) << supervisor.err();
  const std::vector<pid_t> ranks = ranks_below(supervisor);
  ASSERT_EQ(ranks.size(), 3u);
  ::kill(ranks[1], SIGKILL);
  const Answer answer = supervisor.wait(kPatience);
  EXPECT_EQ(answer.exit, 4) << answer.err;
  EXPECT_NE(answer.err.find("gives up after 0 restarts"), std::string::npos) << answer.err;
}

TEST(MpiSupervise, DoesNotStartAgainWhatIsWrongInItself) {
  const TinyRun run(kSaving);
  Process wrong(supervised(run, {"parallel.pipeline=7"}, {}));
  const Answer answer = wrong.wait(kPatience);
  EXPECT_EQ(answer.exit, 2) << answer.err;
  EXPECT_EQ(answer.err.find("restart"), std::string::npos) << answer.err;
  const Answer other = testing::run(testing::cleave_command({"supervise", "true"}));
  EXPECT_EQ(other.exit, 2);
  EXPECT_NE(other.err.find("does not contain cleave train"), std::string::npos) << other.err;
}

}  // namespace
}  // namespace cleave
