// Runs that are asked to stop, or killed while they write checkpoints.

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <thread>

#include "app/saved_steps.h"
#include <gtest/gtest.h>

namespace cleave {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::Answer;
using testing::Process;
using testing::TinyRun;

void expect_no_drafts(const std::string& out) {
  for (const auto& entry : fs::recursive_directory_iterator(out)) {
    EXPECT_EQ(entry.path().string().find("tmp-", out.size()), std::string::npos) << entry.path();
  }
}

class TrainSignals : public ::testing::TestWithParam<int> {};

TEST_P(TrainSignals, FinishTheStepSaveAndLeave) {
  const TinyRun run({"train.steps=300", "parallel.pipeline=2"});
  Process training(run.command());
  ASSERT_TRUE(training.prints("step 1")) << training.err();
  training.signal(GetParam());
  const Answer stopped = training.wait(std::chrono::seconds(10));
  EXPECT_EQ(stopped.exit, 0) << stopped.err;
  EXPECT_NE(stopped.out.find("stopped after step "), std::string::npos) << stopped.out;
  expect_no_drafts(run.out());

  const json resumed = run.report({}, {"--resume"});
  EXPECT_EQ(resumed["weights"], TinyRun({"train.steps=300"}).report()["weights"]);
}

TEST_P(TrainSignals, BeforeTheFirstStepLeaveWithoutIt) {
  const TinyRun run({"train.steps=100000", "parallel.pipeline=2"});  // a second of profiling
  Process training(run.command());
  ASSERT_TRUE(training.prints(" parameters, ")) << training.err();
  training.signal(GetParam());
  const Answer stopped = training.wait();
  EXPECT_EQ(stopped.exit, 0) << stopped.err;
  EXPECT_TRUE(
      stopped.out.ends_with("\nstopped before the first step, as asked; nothing was saved, "
                            "and --resume goes on\n"))
      << stopped.out;
  EXPECT_EQ(stopped.err.starts_with("cleave: stopping after the step in hand"),
            GetParam() != SIGUSR1)
      << stopped.err;
  EXPECT_TRUE(fs::is_empty(run.out() + "/checkpoints"));
}

INSTANTIATE_TEST_SUITE_P(Each, TrainSignals, ::testing::Values(SIGINT, SIGTERM, SIGUSR1));

/// CLEAVE_KILLS=200 for a thorough run.
int kills() {
  const char* given = std::getenv("CLEAVE_KILLS");
  return given == nullptr ? 10 : std::atoi(given);
}

TEST(TrainKill, AtAnyMomentLeavesACompleteCheckpoint) {
  const TinyRun run({"train.checkpoint_every=1", "parallel.pipeline=2", "train.steps=1000000"});
  std::minstd_rand random(7);
  std::int64_t last = 0;
  for (int i = 0; i < kills(); ++i) {
    Process training(run.command({}, {"--resume"}));
    ASSERT_TRUE(training.prints(": saved ")) << i << training.err();
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 40000));
    training.signal(SIGKILL);
    EXPECT_EQ(training.wait().exit, 128 + SIGKILL);

    const Answer verified = testing::run_cleave("checkpoint verify " + run.out());
    ASSERT_EQ(verified.exit, 0) << i << verified.out << verified.err;
    const auto state =
        json::parse(testing::run_cleave("checkpoint inspect --json " + run.out()).out);
    EXPECT_GT(state["step"].get<std::int64_t>(), last) << i;
    last = state["step"];
  }
  const std::string steps = "train.steps=" + std::to_string(last + 3);
  const json resumed = run.report({steps, "train.checkpoint_every=0"}, {"--resume"});
  EXPECT_EQ(resumed["steps"], last + 3);
  expect_no_drafts(run.out());
}

}  // namespace
}  // namespace cleave
