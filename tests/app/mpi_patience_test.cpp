// Ranks that stop, for a while or for good.

#include <algorithm>
#include <csignal>
#include <memory>
#include <thread>

#include "app/tiny_run.h"
#include <gtest/gtest.h>

namespace cleave {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Answer;
using testing::Process;
using testing::TinyRun;

bool runs_cleave(pid_t pid) {
  return testing::read_text("/proc/" + std::to_string(pid) + "/comm") == "cleave\n";
}

/// Once each of them is the program. mpirun waits for a child that has not come so far without
/// looking at any other, and whoever stops it there stops mpirun.
std::vector<pid_t> ranks_of(const Process& job, std::size_t count) {
  for (int i = 0; i < 2000; ++i) {
    const std::vector<pid_t> ranks = job.children();
    if (ranks.size() == count && std::ranges::all_of(ranks, runs_cleave)) return ranks;
    std::this_thread::sleep_for(milliseconds(5));
  }
  return {};
}

TEST(MpiPatience, ARankThatIsStoppedBeforeItsFirstStepEndsTheJob) {
  const TinyRun run({"parallel.pipeline=2"});
  Process job(run.command({}, {"--patience", "5"}, 2));
  const std::vector<pid_t> ranks = ranks_of(job, 2);
  ASSERT_EQ(ranks.size(), 2u) << job.err();
  ::kill(ranks[1], SIGSTOP);
  const Answer answer = job.wait(seconds(40));
  EXPECT_EQ(answer.exit, 4) << answer.err;
  for (const pid_t rank : ranks) EXPECT_TRUE(testing::ends(rank)) << "an orphan";
}

TEST(MpiPatience, ARankThatIsStoppedAtAnyMomentOfTheStartEndsTheJob) {
  const TinyRun run({"parallel.pipeline=2", "parallel.data=1", "train.steps=1000000"});
  std::vector<std::unique_ptr<Process>> jobs;
  for (const int delay : {100, 200, 300, 400, 500, 700}) {
    jobs.push_back(std::make_unique<Process>(run.command(
        {"train.out=" + run.path("out" + std::to_string(delay))}, {"--patience", "5"}, 2)));
    const std::vector<pid_t> ranks = ranks_of(*jobs.back(), 2);
    ASSERT_EQ(ranks.size(), 2u) << jobs.back()->err();
    std::this_thread::sleep_for(milliseconds(delay));
    ::kill(ranks[1], SIGSTOP);
  }
  for (const auto& job : jobs) {
    const Answer answer = job->wait(seconds(40));
    EXPECT_EQ(answer.exit, 4) << answer.err;
  }
}

TEST(MpiPatience, AJobThatIsSuspendedAsAWholeGoesOn) {
  const TinyRun run({"parallel.pipeline=2", "train.steps=1000000"});
  Process job(run.command({}, {"--patience", "6"}, 2));
  ASSERT_TRUE(job.prints("step 1/")) << job.err();
  const std::vector<pid_t> ranks = job.children();
  for (const pid_t rank : ranks) ::kill(rank, SIGSTOP);
  std::this_thread::sleep_for(seconds(8));
  for (const pid_t rank : ranks) ::kill(rank, SIGCONT);
  std::this_thread::sleep_for(seconds(7));
  job.signal(SIGUSR1);
  const Answer answer = job.wait(seconds(20));
  EXPECT_EQ(answer.exit, 0) << answer.err;
}

}  // namespace
}  // namespace cleave
