// What users get wrong, and what machines do to them: one sentence, the right exit code, nothing
// left behind.

#include <csignal>
#include <filesystem>

#include "app/mounted.h"
#include "app/tiny_run.h"
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "cleave/base/units.h"

namespace cleave {
namespace {

namespace fs = std::filesystem;
using testing::Answer;
using testing::Mounted;
using testing::TinyRun;
using Keys = TinyRun::Keys;

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size()) {
    text.replace(at, what.size(), by);
  }
  return text;
}

struct Mistake {
  Keys keys;
  int exit;
  std::string sentence;  // DIR stands for the run's directory
};

const std::vector<Mistake>& mistakes() {
  static const std::vector<Mistake> all = {
      {{"data.path=DIR/none.txt"},
       2,
       "cannot read data.path DIR/none.txt: No such file or directory; set it to a text file, a "
       "directory of text or a .bin of tokens\n"},
      {{"data.path=DIR/empty.txt"},
       2,
       "DIR/empty.txt is empty; give a file with at least one sequence"},
      {{"data.path=DIR/short.txt"},
       2,
       "DIR/short.txt has 5 tokens, but one sequence needs train.sequence + 1 = 17; give more data "
       "or shorten the sequence"},
      {{"data.path=DIR/odd.bin"},
       2,
       "DIR/odd.bin has 101 bytes, which is no whole number of 2-byte tokens; it was cut off, or "
       "data.dtype is not its type"},
      {{"data.path=/dev/null"},
       2,
       "cannot read data.path /dev/null: it is neither a file nor a directory"},
      {{"model.vocab=100"},
       2,
       "DIR/data.txt has token 116 at position 0, but model.vocab is 100; set model.vocab to at "
       "least 117 (256 for bytes)"},
      {{"model.heads=5"}, 2, "model.hidden 32 is not divisible by model.heads 5"},
      {{"train.stepz=3"}, 2, "train.stepz"},
      {{"train.steps=many"}, 2, "train.steps"},
      {{"train.batch=3", "train.microbatch=2"}, 2, "train.batch 3 is not divisible by "},
      {{"parallel.pipeline=9"}, 2, "9 stages need at least 7 layers, and the model has 4"},
      {{"train.out=DIR/data.txt"},
       2,
       "train.out \"DIR/data.txt\" is a file; choose a directory, or a name that is not taken"},
      {{"train.out=/proc/cleave"}, 1, "cannot make /proc/cleave/checkpoints: "},
  };
  return all;
}

/// A run whose directory also holds the files that the table names.
struct TrainErrors : ::testing::Test {
  TrainErrors() {
    run.directory().write("empty.txt", "");
    run.directory().write("short.txt", "short");
    run.directory().write("odd.bin", std::string(101, '\1'));
    directory = fs::path(run.out()).parent_path().string();
  }

  TinyRun run;
  std::string directory;
};

TEST_F(TrainErrors, AreOneSentenceAndLeaveNothingBehind) {
  for (const Mistake& mistake : mistakes()) {
    Keys keys;
    for (const std::string& key : mistake.keys) keys.push_back(replaced(key, "DIR", directory));
    const std::string start = "cleave: " + replaced(mistake.sentence, "DIR", directory);
    for (const char* extra : {"parallel.pipeline=1", "parallel.pipeline=2"}) {
      if (mistake.exit != 2 && std::string(extra).ends_with("2")) continue;
      if (std::string(extra).ends_with("2")) keys.insert(keys.begin(), extra);
      const Answer answer = run.train(keys);
      EXPECT_EQ(answer.exit, mistake.exit) << mistake.sentence << ": " << answer.err;
      EXPECT_NE(answer.err.find(start.substr(8)), std::string::npos) << answer.err;
      EXPECT_TRUE(answer.err.starts_with("cleave: ")) << answer.err;
      EXPECT_EQ(answer.err.find('\n'), answer.err.size() - 1) << answer.err;
      EXPECT_EQ(answer.out, "");
      EXPECT_FALSE(fs::exists(run.out())) << mistake.sentence;
    }
  }
}

// How much scratch kernels take depends on the caches of the machine; its plan knows.
TEST_F(TrainErrors, SayToTheByteWhatMemoryIsMissing) {
  const Answer plan = testing::run(testing::cleave_command(
      {"plan", run.path("run.toml"), "--set", "devices.memory=1MiB", "--json"}));
  const std::int64_t planned = nlohmann::json::parse(plan.out)["planned_bytes"][0];
  ASSERT_GT(planned, 1 << 20);

  const Answer answer = run.train({"devices.memory=1MiB"});

  EXPECT_EQ(answer.exit, 3);
  EXPECT_EQ(answer.err, "cleave: device 0 needs " + format_bytes(planned) + " (" +
                            std::to_string(planned) +
                            " bytes) and has 1.00 MiB (1048576 bytes); raise devices.memory, use "
                            "more devices, or make the microbatch or the model smaller\n");
  EXPECT_EQ(answer.out, "");
  EXPECT_FALSE(fs::exists(run.out()));
}

TEST_F(TrainErrors, ATraceThatCannotBeWrittenEndsTheRunBeforeItBegins) {
  const std::string trace = directory + "/none/step.json";
  const Answer missing = run.train({}, {"--trace", trace});
  EXPECT_EQ(missing.exit, 2);
  EXPECT_EQ(missing.out, "");
  EXPECT_EQ(missing.err, "cleave: cannot write --trace " + trace +
                             ": No such file or directory; choose a directory that exists and that "
                             "you may write to\n");
  fs::create_directories(directory + "/step.svg");
  const Answer taken = run.train({}, {"--trace", directory + "/step.svg"});
  EXPECT_EQ(taken.exit, 2);
  EXPECT_EQ(taken.err, "cleave: cannot write --trace " + directory +
                           "/step.svg: it is a directory; choose another name\n");
  EXPECT_FALSE(fs::exists(run.out()));

  EXPECT_EQ(run.train({"train.steps=1"}, {"--trace", run.out() + "/step.json"}).exit, 0);
  EXPECT_TRUE(fs::exists(run.out() + "/step.json"));
}

TEST_F(TrainErrors, ATraceThatDoesNotFitOnTheDiskLeavesNothing) {
  const Mounted disk(run.path("disk"), "size=4k");
  if (!disk) GTEST_SKIP() << "mounting is not allowed here";
  const Answer answer = run.train({"train.steps=2"}, {"--trace", run.path("disk/step.html")});
  EXPECT_EQ(answer.exit, 1) << answer.err;
  EXPECT_NE(answer.err.find("No space left on device"), std::string::npos) << answer.err;
  EXPECT_TRUE(fs::is_empty(run.path("disk")));
}

TEST_F(TrainErrors, AValidationThatHoldsNothingOutIsSaid) {
  const Answer answer = run.train({"train.steps=1", "data.validation=0.001"});
  EXPECT_EQ(answer.exit, 0);
  EXPECT_EQ(answer.err,
            "cleave: warning: data.validation 0.001 of 249 sequences is 0, and a microbatch has 1: "
            "there is no validation; give more data or shorten train.sequence\n");
}

TEST_F(TrainErrors, AnExistingRunIsNotTouched) {
  ASSERT_EQ(run.train({"train.steps=2"}).exit, 0);
  const auto before = fs::last_write_time(run.out() + "/config.toml");
  const Answer again = run.train();
  EXPECT_EQ(again.exit, 2);
  EXPECT_EQ(again.err, "cleave: train.out \"" + run.out() +
                           "\" exists already; choose another directory, or pass --resume or "
                           "--overwrite\n");
  EXPECT_EQ(fs::last_write_time(run.out() + "/config.toml"), before);
}

// A server's other devices may have made theirs before the first one looks.
TEST_F(TrainErrors, DirectoriesOfOtherDevicesDoNotMakeAnExistingRun) {
  fs::create_directories(run.out() + "/place-1/checkpoints");
  fs::create_directories(run.out() + "/for-clinic-1");
  EXPECT_EQ(run.train({"train.steps=1"}).exit, 0);
}

TEST_F(TrainErrors, NumbersThatExplodeNameTheStepAndTheLayer) {
  for (const char* layout : {"parallel.pipeline=1", "parallel.pipeline=2"}) {
    const Answer answer = run.train({"train.lr=1e30", "train.warmup=0", layout}, {"--overwrite"});
    EXPECT_EQ(answer.exit, 1);
    EXPECT_NE(answer.err.find("cleave: step 2: the "), std::string::npos) << answer.err;
    EXPECT_NE(answer.err.find("layer transformer.h.0."), std::string::npos) << answer.err;
    EXPECT_NE(answer.err.find("lower train.lr"), std::string::npos) << answer.err;
  }
}

// ── A machine that refuses ───────────────────────────────────────────────────────────────────────

/// Runs the command with a limit on the size of files, as a full disk would cut them.
Answer train_with_file_limit(const TinyRun& run, const Keys& keys, int kilobytes) {
  std::string line = "ulimit -f " + std::to_string(kilobytes) + "; trap '' XFSZ; exec";
  for (const std::string& word : run.command(keys)) line += " '" + word + "'";
  return testing::run({"bash", "-c", line});
}

TEST_F(TrainErrors, AFileLimitWhileSavingKeepsThePreviousState) {
  const Answer answer = train_with_file_limit(run, {"train.steps=3"}, 300);
  EXPECT_EQ(answer.exit, 1) << answer.err;
  EXPECT_NE(answer.err.find("optimizer.safetensors: File too large; raise the limit on file sizes "
                            "(ulimit -f)\n"),
            std::string::npos)
      << answer.err;
  EXPECT_TRUE(fs::is_empty(run.out() + "/checkpoints"));
}

TEST_F(TrainErrors, AFileLimitWhileLoggingEndsInAWholeLine) {
  // Larger than tokenizer.json, and smaller than the log of all steps.
  const Keys keys = {"train.steps=100", "train.checkpoint_every=100"};
  const Answer answer = train_with_file_limit(run, keys, 8);
  EXPECT_EQ(answer.exit, 1) << answer.err;
  EXPECT_NE(answer.err.find("log.jsonl: File too large"), std::string::npos) << answer.err;
  const std::string log = testing::read_text(run.out() + "/log.jsonl");
  EXPECT_TRUE(log.ends_with("}\n")) << log;
}

TEST_F(TrainErrors, TheWatchdogEndsARunWhoseDeviceHangs) {
  // Device 1 sleeps for a quarter of an hour in its first F.
  const Answer answer =
      run.train({"parallel.pipeline=2", "parallel.partition=[2, 2]", "devices.count=2",
                 "devices.speed=[1, 1e-6]", "devices.emulate=\"f=1ms,i=1ms,w=1ms\""},
                {"--patience", "0.5"});
  EXPECT_EQ(answer.exit, 4) << answer.err;
  for (const char* words :
       {"cleave: at WAIT:", "(edge 0, stage 0 to stage 1)", "device 0 has waited 500 ms for its ",
        "device 1, tag ", "; device 1 waits for nobody: it computes or hangs\n"})
    EXPECT_NE(answer.err.find(words), std::string::npos) << words << " is not in " << answer.err;
}

TEST_F(TrainErrors, EmulatedDevicesHaveNoWeightsToBeginWith) {
  for (const char* flag : {"--resume", "--init-from=elsewhere"}) {
    const Answer answer = run.train({"devices.emulate=\"f=1ms,i=1ms,w=1ms\""}, {flag});
    EXPECT_EQ(answer.exit, 2);
    EXPECT_NE(answer.err.find(" needs weights, and emulated devices have none; leave it out"),
              std::string::npos)
        << answer.err;
  }
}

TEST_F(TrainErrors, AFullDiskKeepsThePreviousCheckpoint) {
  const Mounted disk(run.path("disk"), "size=1200k");
  if (!disk) GTEST_SKIP() << "mounting is not allowed here";
  const Keys keys = {"train.out=" + run.path("disk/out"), "train.checkpoint_every=1"};
  const Answer answer = run.train(keys);
  EXPECT_EQ(answer.exit, 1) << answer.err;
  EXPECT_NE(answer.err.find("No space left on device; free some space"), std::string::npos)
      << answer.err;
  const Answer verified = testing::run_cleave("checkpoint verify " + run.path("disk/out"));
  EXPECT_EQ(verified.exit, 0) << verified.out;
  for (const auto& entry : fs::directory_iterator(run.path("disk/out/checkpoints"))) {
    EXPECT_FALSE(entry.path().filename().string().starts_with(".tmp")) << entry.path();
  }
}

TEST_F(TrainErrors, AReadOnlyDirectoryIsNamed) {
  const Mounted disk(run.path("disk"), "size=1m");
  if (!disk) GTEST_SKIP() << "mounting is not allowed here";
  disk.make_read_only();
  const Answer answer = run.train({"train.out=" + run.path("disk/out")});
  EXPECT_EQ(answer.exit, 1);
  EXPECT_EQ(answer.err, "cleave: cannot make " + run.path("disk/out/checkpoints") +
                            ": Read-only file system; choose a train.out that you may write to\n");
}

}  // namespace
}  // namespace cleave
