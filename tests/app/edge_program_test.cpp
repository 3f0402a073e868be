// cleave-edge as its users meet it. What it computes is tested where owners join servers, by
// running those tests with CLEAVE_CLIENT.

#include "app/served_owners.h"
#include <gtest/gtest.h>

namespace cleave {
namespace {

using testing::Answer;
using testing::client_command;

class EdgeProgram : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("CLEAVE_CLIENT") == nullptr) GTEST_SKIP() << "CLEAVE_CLIENT names no program";
  }
};

TEST_F(EdgeProgram, JoinsAndTellsItsVersionAndDoesNothingElse) {
  const Answer help = testing::run(client_command({"--help"}));
  EXPECT_EQ(help.exit, 0);
  EXPECT_NE(help.out.find("\n  join "), std::string::npos) << help.out;
  EXPECT_NE(help.out.find("\n  version "), std::string::npos);

  const Answer other = testing::run(client_command({"train", "run.toml"}));
  EXPECT_EQ(other.exit, 2);
  EXPECT_EQ(other.err, "cleave-edge: there is no verb 'train'; known are join, version\n");
}

}  // namespace
}  // namespace cleave
