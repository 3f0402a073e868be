#include "cleave/train/loop/metrics_log.h"

#include <limits>

#include "support/temporary_directory.h"
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

namespace cleave::train {
namespace {

using cleave::testing::TemporaryDirectory;

StepMetrics at(std::int64_t step) {
  return {.step = step,
          .loss = 2.1,
          .gradient_norm = 0.5,
          .lr = 3e-4,
          .tokens_per_second = 1000,
          .seconds = 0.25,
          .wait = 0.125,
          .epochs = 0.5,
          .memory_bytes = 4096};
}

const std::string kRest = R"(,"loss":2.1,"gradient_norm":0.5,"lr":0.0003,"tokens_per_second":1000,)"
                          R"("seconds":0.25,"wait_seconds":0.125,"epochs":0.5,"memory_bytes":4096})"
                          "\n";

std::string line(std::int64_t step) {
  return "{\"step\":" + std::to_string(step) + kRest;
}

TEST(MetricsLog, WritesOneLinePerStep) {
  const TemporaryDirectory dir;
  const auto path = dir.path() / "log.jsonl";
  MetricsLog log(path);
  log.write(at(1));
  EXPECT_EQ(read_text(path), line(1));  // without waiting for the end

  StepMetrics second = at(2);
  second.loss = std::numeric_limits<double>::quiet_NaN();
  second.validation_loss = 0.1;
  log.write(second);
  const std::string text = read_text(path).substr(line(1).size());
  EXPECT_TRUE(text.starts_with("{\"step\":2,\"loss\":null,")) << text;
  EXPECT_TRUE(text.ends_with(",\"validation_loss\":0.1}\n")) << text;
}

TEST(MetricsLog, ContinuesAfterTheStepThatWasLoaded) {
  const TemporaryDirectory dir;
  const auto path = dir.write("log.jsonl", line(1) + line(2) + line(3) + "{\"step\":4,\"lo");
  MetricsLog(path, 2).write(at(3));
  EXPECT_EQ(read_text(path), line(1) + line(2) + line(3));

  MetricsLog(path, 100).write(at(101));
  EXPECT_EQ(read_text(path), line(1) + line(2) + line(3) + line(101));
}

TEST(MetricsLog, KeepsWhatHappenedThoughStepsAreDoneAgain) {
  const TemporaryDirectory dir;
  const std::string lost = R"({"event":"lost","after_step":3,"text":"device 1 (\"w\") is gone"})"
                           "\n";
  const auto path = dir.write("log.jsonl", line(1) + line(2) + line(3));
  MetricsLog(path, MetricsLog::kAllSteps).write(RunEvent{"lost", 3, "device 1 (\"w\") is gone"});
  EXPECT_EQ(read_text(path), line(1) + line(2) + line(3) + lost);

  const auto timed = dir.write("timed.jsonl", "");
  MetricsLog(timed).write(RunEvent{"plan", 0, "plan 1", 1'700'000'000.25});
  EXPECT_EQ(read_text(timed),
            "{\"event\":\"plan\",\"after_step\":0,\"time\":1700000000.250,\"text\":\"plan 1\"}\n");

  MetricsLog(path, 2).write(at(3));
  EXPECT_EQ(read_text(path), line(1) + line(2) + lost + line(3));
  MetricsLog(path, 0).write(at(1));
  EXPECT_EQ(read_text(path), lost + line(1));
}

TEST(MetricsLog, StartsAnewFromStepNought) {
  const TemporaryDirectory dir;
  const auto path = dir.write("log.jsonl", line(1) + line(2));
  MetricsLog(path).write(at(1));
  EXPECT_EQ(read_text(path), line(1));
}

TEST(MetricsLog, LeavesNoHalfLineWhenTheDiskIsFull) {
  const TemporaryDirectory dir;
  const auto path = dir.path() / "log.jsonl";
  MetricsLog log(path);
  log.write(at(1));

  // A limit on file sizes fails the same call as a full disk, on any machine.
  auto* old_action = ::signal(SIGXFSZ, SIG_IGN);
  rlimit old{};
  ::getrlimit(RLIMIT_FSIZE, &old);
  const rlimit tight{line(1).size() + 20, old.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &tight);
  std::string message;
  try {
    log.write(at(2));
  } catch (const IoError& error) {
    message = error.what();
  }
  ::setrlimit(RLIMIT_FSIZE, &old);
  ::signal(SIGXFSZ, old_action);

  EXPECT_EQ(message, "cannot write " + path.string() +
                         ": File too large; raise the limit on file sizes (ulimit -f)");
  EXPECT_EQ(read_text(path), line(1));
  log.write(at(2));
  EXPECT_EQ(read_text(path), line(1) + line(2));
}

}  // namespace
}  // namespace cleave::train
