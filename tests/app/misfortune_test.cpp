// What happens to a run through no fault of its config: streams that are closed or full, a machine
// that has no more threads, memory or disk, files that others change.

#include <csignal>
#include <filesystem>

#include "app/tiny_run.h"
#include <gtest/gtest.h>

namespace cleave {
namespace {

namespace fs = std::filesystem;
using testing::Answer;
using testing::Process;
using testing::TinyRun;
using Keys = TinyRun::Keys;

/// The command of a run as a line of shell, after `before` and with `after` behind it.
Answer in_shell(const std::string& before, const std::vector<std::string>& command,
                const std::string& after = "") {
  std::string line = before;
  for (const std::string& word : command) line += " '" + word + "'";
  return testing::run({"bash", "-c", line + " " + after});
}

bool verified(const TinyRun& run) {
  return testing::run_cleave("checkpoint verify " + run.out()).exit == 0;
}

TEST(Streams, ThatAreClosedDoNotEndUpInACheckpoint) {
  const TinyRun run({"train.steps=5", "train.checkpoint_every=1"});
  for (const char* closed : {"<&-", ">&-", "2>&-", "<&- >&-", "<&- >&- 2>&-"}) {
    const Answer answer = in_shell("", run.command({}, {"--overwrite"}), closed);
    EXPECT_EQ(answer.exit, 0) << closed << answer.err;
    EXPECT_TRUE(verified(run)) << closed;
  }
}

TEST(Streams, ThatAreFullOrClosedKeepTheExitCode) {
  const TinyRun run({"train.steps=2"});
  for (const char* stream : {"2>/dev/full", "2>&-"}) {
    EXPECT_EQ(in_shell("", run.command({"train.stepz=1"}), stream).exit, 2) << stream;
    EXPECT_EQ(in_shell("", run.command({"devices.memory=1KiB"}, {"--overwrite"}), stream).exit, 3)
        << stream;
    EXPECT_EQ(in_shell("", run.command({"data.validation=0.001"}, {"--overwrite"}), stream).exit, 0)
        << stream;
  }
}

TEST(Streams, ThatNobodyReadsDoNotEndARun) {
  const TinyRun run({"train.steps=5"});
  const Answer answer = in_shell("set -o pipefail;", run.command(), "| true");
  EXPECT_NE(answer.exit, 128 + SIGPIPE) << answer.err;
  EXPECT_TRUE(verified(run));
  const Answer full = in_shell("", run.command({}, {"--overwrite"}), ">/dev/full");
  EXPECT_EQ(full.exit, 1);
  EXPECT_EQ(full.err, "cleave: cannot write standard output: No space left on device\n");
  EXPECT_TRUE(verified(run));
}

TEST(Limits, OnFileSizesAreAnErrorAndNotASignal) {
  const TinyRun run({"train.steps=3"});
  const Answer answer = in_shell("ulimit -f 300; exec", run.command());
  EXPECT_EQ(answer.exit, 1) << answer.err;
  EXPECT_NE(answer.err.find(": File too large; raise the limit on file sizes (ulimit -f)\n"),
            std::string::npos)
      << answer.err;
}

TEST(Limits, OnThreadsNameTheDeviceThatGetsNone) {
  const TinyRun run({"train.steps=3", "parallel.pipeline=4"});
  // Every thread wants a stack of a gigabyte, and the process may have three.
  const Answer answer = in_shell("ulimit -s 1000000; ulimit -v 3000000; exec", run.command());
  EXPECT_EQ(answer.exit, 1) << answer.err;
  EXPECT_EQ(answer.err.find("cleave: the system starts no thread for device "), 0u) << answer.err;
  EXPECT_NE(answer.err.find(" of 4: Resource temporarily unavailable; use fewer devices, or raise "
                            "the limits on processes and memory\n"),
            std::string::npos)
      << answer.err;
}

TEST(Limits, OnMemoryAreSaidInASentence) {
  const TinyRun run({"train.steps=3", "model.layers=10000"});
  const Answer answer = in_shell("ulimit -v 400000; exec", run.command());
  EXPECT_EQ(answer.exit, 3) << answer.err;
  EXPECT_EQ(answer.err,
            "cleave: the system gives this process no more memory; use a smaller model or more "
            "devices, or raise its limit (ulimit -v)\n");
}

// ── What others do to files ──────────────────────────────────────────────────────────────────────

TEST(Lock, RefusesASecondRunAndNamesTheFirst) {
  const TinyRun run({"train.steps=1000000"});
  Process first(run.command());
  ASSERT_TRUE(first.prints("step 1/")) << first.err();
  for (const char* flag : {"--overwrite", "--resume"}) {
    const Answer second = run.train({}, {flag});
    EXPECT_EQ(second.exit, 2) << flag;
    EXPECT_EQ(second.err.find("cleave: train.out \"" + run.out() + "\" is in use by process " +
                              std::to_string(first.pid()) + " on "),
              0u)
        << second.err;
    EXPECT_NE(second.err.find(" UTC; wait for it, end it, or choose another directory\n"),
              std::string::npos)
        << second.err;
  }
  first.signal(SIGKILL);
  first.wait();
  EXPECT_EQ(run.train({"train.steps=2"}, {"--overwrite"}).exit, 0);
}

TEST(Links, AreNotFollowedWhereARunWrites) {
  const TinyRun run({"train.steps=2"});
  for (const char* name : {"log.jsonl", "config.toml.tmp", "run.html"}) {
    fs::remove_all(run.out());
    fs::create_directories(run.out());
    run.directory().write("precious", "precious\n");
    fs::create_symlink("../precious", run.out() + "/" + name);
    const bool is_log = std::string(name) == "log.jsonl";
    const Answer answer = run.train({}, {is_log ? "--resume" : "--overwrite"});
    EXPECT_EQ(answer.exit, is_log ? 1 : 0) << answer.err;
    EXPECT_EQ(testing::read_text(run.path("precious")), "precious\n") << name;
  }
}

TEST(Links, ThatLatestShouldBeMayLoopOrDangle) {
  const TinyRun run({"train.steps=2"});
  ASSERT_EQ(run.train().exit, 0);
  const std::string latest = run.out() + "/checkpoints/latest";
  for (const char* target : {"latest", "..", "nowhere", "/nonexistent/step-00000009"}) {
    fs::remove(latest);
    fs::create_symlink(target, latest);
    EXPECT_TRUE(verified(run)) << target;
    EXPECT_EQ(run.train({"train.steps=3"}, {"--resume"}).exit, 0) << target;
    EXPECT_EQ(fs::read_symlink(latest), "step-00000003") << target;
    fs::remove_all(run.out() + "/checkpoints/step-00000003");
  }
  fs::remove(latest);
  fs::create_directory(latest);
  const Answer answer = run.train({"train.steps=3"}, {"--resume"});
  EXPECT_EQ(answer.exit, 2);
  EXPECT_EQ(answer.err, "cleave: " + latest +
                            " is not the link to the latest checkpoint that cleave keeps there; "
                            "rename it or remove it\n");
}

TEST(Links, OfDataMayLeadInACircle) {
  const TinyRun run({"train.steps=2"});
  const std::string directory = run.path("texts");
  fs::create_directories(directory);
  fs::copy(run.path("data.txt"), directory + "/data.txt");
  fs::create_symlink("circle", directory + "/circle");
  fs::create_symlink("..", directory + "/up");
  fs::create_symlink("nowhere", directory + "/dangling");
  const nlohmann::json linked = run.report({"data.path=" + directory});
  EXPECT_EQ(linked["weights"], run.report({}, {"--overwrite"})["weights"]);
}

TEST(Data, ThatShrinksIsAnErrorWithItsName) {
  const TinyRun run({"train.steps=100000000"});
  std::string text;
  for (int i = 0; i < 20000; ++i) text += "the quick brown ";
  const std::string path = run.directory().write("large.txt", text);
  Process training(run.command({"data.path=" + path}));
  ASSERT_TRUE(training.prints("step 1/")) << training.err();
  fs::resize_file(path, 1000);
  const Answer answer = training.wait();
  EXPECT_EQ(answer.exit, 2) << answer.err;
  EXPECT_NE(answer.err.find("cleave: " + path + " ends at byte "), std::string::npos) << answer.err;
  EXPECT_NE(answer.err.find("it was cut off"), std::string::npos) << answer.err;
}

TEST(Data, ThatIsRemovedIsReadToTheEnd) {
  const TinyRun run({"train.steps=300"});
  std::string text;
  for (int i = 0; i < 20000; ++i) text += "the quick brown ";
  const std::string path = run.directory().write("large.txt", text);
  Process training(run.command({"data.path=" + path}));
  ASSERT_TRUE(training.prints("step 1/")) << training.err();
  fs::remove(path);
  EXPECT_EQ(training.wait().exit, 0) << training.err();
}

TEST(Config, MayComeThroughAPipe) {
  const TinyRun run({"train.steps=2"});
  const std::string weights = run.report()["weights"];
  std::vector<std::string> command = run.command({}, {"--json", "--overwrite"});
  command[2] = "/dev/stdin";
  const Answer piped = in_shell("cat '" + run.path("run.toml") + "' |", command);
  EXPECT_EQ(piped.exit, 0) << piped.err;
  EXPECT_NE(piped.out.find(weights), std::string::npos) << piped.out;
  command.back() = "--resume";
  command.insert(command.end(), {"--set", "train.steps=3"});
  EXPECT_EQ(in_shell("cat '" + run.path("run.toml") + "' |", command).exit, 0);
}

TEST(Config, ThatIsAbsurdIsRefusedBeforeAnythingIsMade) {
  const TinyRun run;
  const auto refused = [&](const Keys& keys, const std::string& words) {
    const Answer answer = run.train(keys);
    EXPECT_EQ(answer.exit, 2) << answer.err;
    EXPECT_NE(answer.err.find(words), std::string::npos) << answer.err;
  };
  refused({"train.microbatch=4611686018427387904", "parallel.data=4"},
          "train.microbatch 4611686018427387904 is more than the train.batch of 4");
  refused({"parallel.data=1000000", "train.batch=1000000"},
          "devices.count 1000000 devices would be as many threads of one process, and more than "
          "4096 help nobody; use fewer, or MPI ranks");
  refused({"devices.emulate=\"f=1e10s,i=1s,w=1s\""}, "devices.emulate is ");
  std::string deep = "a";
  for (int i = 0; i < 50000; ++i) deep += ".a";
  run.directory().write("run.toml", deep + " = 1\n");
  refused({}, "run.toml:1 has a key of more than 64 parts");
}

// ── Numbers that are none ────────────────────────────────────────────────────────────────────────

TEST(NonFinite, StepsAreLeftOutAsOftenAsAllowedOnAllLayouts) {
  const Keys keys = {"train.lr=1e30", "train.warmup=0", "train.steps=4", "train.skip_nonfinite=3",
                     "numerics.data_shards=2"};
  const TinyRun run(keys);
  const nlohmann::json alone = run.report();
  ASSERT_EQ(alone["steps"], 4);
  for (const char* layout : {"parallel.pipeline=2", "parallel.data=2"})
    EXPECT_EQ(run.report({layout}, {"--overwrite"})["weights"], alone["weights"]) << layout;
  const Answer fewer = run.train({"train.skip_nonfinite=2"}, {"--overwrite"});
  EXPECT_EQ(fewer.exit, 1);
  EXPECT_NE(fewer.err.find("cleave: step 4: the "), std::string::npos) << fewer.err;
}

// Shares of gradients have memory until STEP, which a step that is left out does not reach; the
// validation has other things there.
TEST(NonFinite, AStepThatIsLeftOutLeavesItsMemoryToTheValidationAfterIt) {
  const TinyRun run({"train.lr=1e30", "train.warmup=0", "train.steps=4", "train.skip_nonfinite=3",
                     "train.eval_every=1", "train.batch=8", "train.microbatch=1",
                     "parallel.data=2"});
  const nlohmann::json whole = run.report();
  for (const Keys& layout :
       {Keys{"parallel.zero=2"}, Keys{"parallel.zero=2", "parallel.pipeline=2"},
        Keys{"parallel.zero=3", "parallel.pipeline=2"}})
    EXPECT_EQ(run.report(layout, {"--overwrite"})["weights"], whole["weights"]) << layout.back();
}

}  // namespace
}  // namespace cleave
