#include <cstdlib>
#include <filesystem>
#include <string>

#include "app/run_cleave.h"
#include "support/paths.h"
#include "support/temporary_directory.h"
#include <gtest/gtest.h>

namespace cleave {
namespace {

TEST(Pictures, InTheDocumentsAreWhatTheProgramDraws) {
  const testing::TemporaryDirectory directory;
  const std::string command = "CLEAVE='" + testing::cleave_binary() + "' " +
                              testing::source_path("scripts/pictures") + " " + directory.path("") +
                              " >/dev/null";

  ASSERT_EQ(std::system(command.c_str()), 0);

  int compared = 0;
  for (const auto& drawn : std::filesystem::directory_iterator(directory.path(""))) {
    const std::string name = drawn.path().filename();
    EXPECT_TRUE(testing::read_text(drawn.path()) ==
                testing::read_text(testing::source_path("docs/pictures/" + name)))
        << name << " is not up to date: run scripts/pictures";
    ++compared;
  }
  EXPECT_GE(compared, 10);
}

}  // namespace
}  // namespace cleave
