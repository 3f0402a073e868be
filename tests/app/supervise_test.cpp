// A supervisor whose command is no run at all: only its code counts.

#include <csignal>
#include <string>

#include "app/process.h"
#include <gtest/gtest.h>

namespace cleave {
namespace {

using testing::Answer;
using testing::Process;

TEST(Supervise, EndsWhenItIsToldToBetweenTwoAttempts) {
  Process supervisor(testing::cleave_command(
      {"supervise", "sh", "-c", "echo an attempt >&2; exit 4", "cleave", "train"}));
  ASSERT_TRUE(supervisor.prints("restart 1 of 10 from the last checkpoint")) << supervisor.err();
  ::kill(supervisor.pid(), SIGTERM);

  const Answer answer = supervisor.wait();

  EXPECT_EQ(answer.exit, 4);
  EXPECT_EQ(answer.err,
            "an attempt\ncleave supervise: code 4; restart 1 of 10 from the last checkpoint\n");
}

}  // namespace
}  // namespace cleave
