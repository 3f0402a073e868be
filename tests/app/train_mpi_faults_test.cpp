// Runs under mpirun in which a rank is killed, stopped or out of room.

#include <csignal>
#include <filesystem>
#include <thread>

#include "app/mounted.h"
#include "app/tiny_run.h"
#include <gtest/gtest.h>

namespace cleave {
namespace {

using nlohmann::json;
using std::chrono::seconds;
using testing::Answer;
using testing::Process;
using testing::TinyRun;

TEST(MpiFaults, AKilledRankEndsTheJobAndResumeGivesTheSameWeights) {
  const TinyRun run({"parallel.pipeline=3", "train.steps=900", "train.checkpoint_every=300"});
  const TinyRun undisturbed({"train.steps=900"});
  Process job(run.command({}, {}, 3));
  ASSERT_TRUE(job.prints("step 300: saved")) << job.err();
  const std::vector<pid_t> ranks = job.children();
  ASSERT_EQ(ranks.size(), 3u);
  // Past the end of saving, where ranks wait for each other without an instruction.
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  ::kill(ranks[1], SIGKILL);
  const Answer killed = job.wait(seconds(10));
  EXPECT_NE(killed.exit, 0);
  EXPECT_NE(killed.exit, -1) << "the job must end within 10 s";
  // Which of them speaks before mpirun kills it is up to mpirun; one does.
  EXPECT_NE(killed.err.find("was told to end, as mpirun does when another rank has died"),
            std::string::npos)
      << killed.err;
  EXPECT_NE(killed.err.find("device 1, tag"), std::string::npos) << killed.err;
  EXPECT_NE(killed.err.find(": at "), std::string::npos) << killed.err;
  for (const pid_t rank : ranks) EXPECT_TRUE(testing::ends(rank)) << "an orphan";

  const json resumed = run.report({}, {"--resume"}, 3);
  EXPECT_EQ(resumed["weights"], undisturbed.report()["weights"]) << resumed;
}

// Alone in its pipeline, a rank waits for others in collectives only.
TEST(MpiFaults, TheWatchdogNamesARankThatStopsAnswering) {
  for (const char* layout : {"parallel.pipeline=3", "parallel.data=3"}) {
    const TinyRun run({layout, "train.steps=100000", "train.batch=12"});
    Process job(run.command({}, {"--patience", "2"}, 3));
    ASSERT_TRUE(job.prints("step 1")) << job.err();
    const std::vector<pid_t> ranks = job.children();
    ASSERT_EQ(ranks.size(), 3u);
    ::kill(ranks[1], SIGSTOP);
    const Answer answer = job.wait(seconds(10));
    EXPECT_EQ(answer.exit, 4) << answer.err;
    for (const char* words : {": at ", " has waited 2.00 s for its ", "device 1, tag ",
                              "device 1 does not answer: it computes, hangs or is stopped\n"})
      EXPECT_NE(answer.err.find(words), std::string::npos) << words << " is not in " << answer.err;
    for (const pid_t rank : ranks) EXPECT_TRUE(testing::ends(rank)) << "an orphan";
  }
}

TEST(MpiFaults, Usr1StopsAfterTheStepAndResumeGoesOn) {
  const TinyRun run({"parallel.pipeline=2", "train.steps=600"});
  Process job(run.command({}, {}, 2));
  ASSERT_TRUE(job.prints("step 1")) << job.err();
  const std::vector<pid_t> ranks = job.children();
  job.signal(SIGUSR1);
  const Answer stopped = job.wait(seconds(10));
  EXPECT_EQ(stopped.exit, 0) << stopped.err;
  EXPECT_NE(stopped.out.find("stopped after step "), std::string::npos) << stopped.out;
  for (const pid_t rank : ranks) EXPECT_TRUE(testing::ends(rank)) << "an orphan";
  for (const auto& entry : std::filesystem::recursive_directory_iterator(run.out())) {
    EXPECT_EQ(entry.path().string().find(".tmp"), std::string::npos) << entry.path();
  }
  const json resumed = run.report({}, {"--resume"}, 2);
  EXPECT_EQ(resumed["weights"], TinyRun({"train.steps=600"}).report()["weights"]) << resumed;
}

TEST(MpiFaults, TermLeavesTheLastCheckpointIntact) {
  const TinyRun run({"parallel.pipeline=2", "train.steps=100000", "train.checkpoint_every=20"});
  Process job(run.command({}, {}, 2));
  ASSERT_TRUE(job.prints("step 20: saved")) << job.err();
  job.signal(SIGTERM);
  const Answer ended = job.wait(seconds(10));
  EXPECT_NE(ended.exit, 0);
  EXPECT_NE(ended.exit, -1);
  const Answer verified = testing::run_cleave("checkpoint verify " + run.out());
  EXPECT_EQ(verified.exit, 0) << verified.out << verified.err;
}

TEST(MpiFaults, AFullDiskEndsTheJobAndKeepsThePreviousCheckpoint) {
  const TinyRun run({"parallel.pipeline=2", "train.checkpoint_every=1"});
  const testing::Mounted disk(run.path("disk"), "size=1200k");
  if (!disk) GTEST_SKIP() << "mounting is not allowed here";
  const Answer full = run.train({"train.out=" + run.path("disk/out")}, {}, 2);
  EXPECT_EQ(full.exit, 1) << full.err;
  EXPECT_NE(full.err.find("cleave: rank 0: cannot write "), std::string::npos) << full.err;
  EXPECT_NE(full.err.find("No space left on device; free some space"), std::string::npos)
      << full.err;
  const Answer verified = testing::run_cleave("checkpoint verify " + run.path("disk/out"));
  EXPECT_EQ(verified.exit, 0) << verified.out << verified.err;
}

}  // namespace
}  // namespace cleave
