// `make install` refuses a place that it cannot write to before it builds anything; what it wrote
// can be taken away.

#include <filesystem>
#include <fstream>

#include "support/paths.h"
#include "support/temporary_directory.h"
#include <gtest/gtest.h>
#include <sys/wait.h>

namespace cleave {
namespace {

namespace fs = std::filesystem;

struct Said {
  int exit = -1;
  std::string text;
};

Said run(const std::string& command) {
  Said said;
  FILE* const pipe = ::popen((command + " 2>&1").c_str(), "r");
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) said.text += static_cast<char>(c);
  said.exit = WEXITSTATUS(::pclose(pipe));
  return said;
}

TEST(Install, RefusesAPrefixThatItCannotWriteToInOneSentence) {
  const Said said = run("make --no-print-directory -C " + testing::source_path("") +
                        " install PREFIX=/proc/none");
  EXPECT_EQ(said.exit, 2);
  EXPECT_TRUE(
      said.text.starts_with("install: cannot write to /proc/none; choose another place, as "
                            "in make install PREFIX=~/x\n"))
      << said.text;
}

TEST(Install, IsTakenAwayWithTheDirectoriesThatItMade) {
  const testing::TemporaryDirectory directory;
  const std::string ours = directory.write("x/share/man/man1/cleave.1", "");
  const std::string program = directory.write("x/bin/cleave", "");
  directory.write("x/bin/other", "");
  const std::string manifest = directory.write("manifest", ours + "\n" + program);
  EXPECT_EQ(run(testing::source_path("scripts/uninstall") + " " + manifest).exit, 0);
  EXPECT_FALSE(fs::exists(directory.path("x/share")));
  EXPECT_FALSE(fs::exists(program));
  EXPECT_TRUE(fs::exists(directory.path("x/bin/other")));
}

}  // namespace
}  // namespace cleave
