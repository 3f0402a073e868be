#include <algorithm>
#include <array>
#include <chrono>
#include <random>

#include "checkpoint/sample_checkpoint.h"
#include "support/temporary_directory.h"
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cleave::checkpoint {
namespace {

using cleave::testing::TemporaryDirectory;

/// What `act` says when it throws, run in a process of its own; empty if it does not throw.
template <class Act>
std::string error_in_child(Act act) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) return "no pipe";
  const pid_t child = ::fork();
  if (child == 0) {
    std::string message;
    try {
      act();
    } catch (const IoError& error) {
      message = error.what();
    } catch (const std::exception& error) {
      message = std::string("not an IoError: ") + error.what();
    }
    ::_exit(::write(ends[1], message.data(), message.size()) >= 0 ? 0 : 1);
  }
  ::close(ends[1]);
  std::string message(4096, '\0');
  message.resize(std::max<ssize_t>(::read(ends[0], message.data(), message.size()), 0));
  ::close(ends[0]);
  ::waitpid(child, nullptr, 0);
  return message;
}

TEST(Checkpoint, LeavesThePreviousOneAndNoDraftWhenTheDiskIsFull) {
  const TemporaryDirectory dir;
  save(dir.path(), 1);

  // A limit on file sizes fails the same calls as a full disk, on any machine.
  const std::string message = error_in_child([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{4096, 4096};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    save(dir.path(), 2);
  });

  EXPECT_EQ(message, "cannot write " + (draft_path(dir.path(), 2) / kModelFile).string() +
                         ": File too large; raise the limit on file sizes (ulimit -f)");
  EXPECT_EQ(names_in(dir.path()), (std::vector<std::string>{"latest", "step-00000001"}));
  expect_content(dir.path() / "latest", 1);
}

TEST(Checkpoint, SaysWhenItMayNotWrite) {
  const TemporaryDirectory dir;
  const fs::path file = dir.write("file", "");  // a file where a directory should be

  const std::string message = error_in_child([&] { save(file / "checkpoints", 2); });

  EXPECT_EQ(message, "cannot create " + (file / "checkpoints" / ".tmp-step-00000002").string() +
                         ": Not a directory; choose a train.out that you may write to");
}

// A child saves as fast as it can and is killed at a random moment. Whatever `latest` and every
// step-… directory are then, they must be whole, and a new start must find only those.
TEST(Checkpoint, SurvivesBeingKilledAtAnyMoment) {
  const TemporaryDirectory dir;
  std::mt19937 random(1);
  std::int64_t latest = 1;
  const auto start = std::chrono::steady_clock::now();
  save(dir.path(), latest);
  const std::chrono::duration<double, std::micro> one = std::chrono::steady_clock::now() - start;
  const auto longest = static_cast<useconds_t>(2 * one.count() + 1000);
  for (int round = 0; round < 200; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      for (std::int64_t step = latest + 1;; ++step) save(dir.path(), step);
    }
    ::usleep(std::uniform_int_distribution<useconds_t>(0, longest)(random));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);

    clean_checkpoints(dir.path());
    const std::int64_t found = CheckpointReader(latest_checkpoint(dir.path()).value()).state().step;
    ASSERT_GE(found, latest);
    latest = found;
    for (std::int64_t step : list_checkpoints(dir.path())) {
      expect_content(checkpoint_path(dir.path(), step), step);
    }
    for (const std::string& name : names_in(dir.path())) ASSERT_FALSE(name.starts_with("."));
  }
  EXPECT_GT(latest, 1);
}

}  // namespace
}  // namespace cleave::checkpoint
