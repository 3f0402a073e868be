// Tables fit a terminal of 80 columns, whatever verb prints them.

#include <cstdlib>
#include <regex>
#include <sstream>
#include <string>

#include "app/run_cleave.h"
#include "support/paths.h"
#include "support/temporary_directory.h"
#include <gtest/gtest.h>

namespace cleave {
namespace {

using testing::Answer;
using testing::run_cleave;
using testing::source_path;
using testing::TemporaryDirectory;

std::size_t columns_in(const std::string& line) {
  std::size_t columns = 0;
  for (const char c : line) columns += (static_cast<unsigned char>(c) & 0xc0) != 0x80 ? 1 : 0;
  return columns;
}

/// The rows of tables that are too wide: sentences have single blanks, columns more. A line that
/// begins with the time of day is one of a log, which nobody reads as a table.
std::string too_wide(const std::string& text) {
  static const std::regex columns("\\S  +\\S");
  static const std::regex logged("\\d\\d:\\d\\d:\\d\\d  step .*");
  std::istringstream lines(text);
  std::string found;
  for (std::string line; std::getline(lines, line);) {
    if (columns_in(line) <= 80 || std::regex_match(line, logged)) continue;
    if (std::regex_search(line, columns)) found += line + "\n";
  }
  return found;
}

class Columns : public ::testing::Test {
 protected:
  Columns() { setenv("COLUMNS", "80", /*replace=*/1); }  // pictures follow the terminal
  ~Columns() override { unsetenv("COLUMNS"); }

  void expect_narrow(const std::string& command, int exit = 0) {
    const Answer answer = run_cleave(command);
    EXPECT_EQ(answer.exit, exit) << command << "\n" << answer.err;
    EXPECT_EQ(too_wide(answer.out), "") << command;
    EXPECT_EQ(too_wide(answer.err), "") << command;
  }

  TemporaryDirectory dir_;
};

TEST_F(Columns, AreAtMost80InWhatIsPlanned) {
  expect_narrow("presets");
  expect_narrow("plan --model gpt3-175b --cluster a100-80gb:1024 --batch 1536");
  expect_narrow("plan --model gpt3-175b --cluster a100-80gb:8 --batch 64", 3);
  expect_narrow("schedule 1f1b,zb-h1,auto,interleaved,v-half --stages 16 --microbatches 64");
}

TEST_F(Columns, AreAtMost80InARun) {
  const std::string out = dir_.path("out");
  dir_.write("text.txt", std::string(4000, 'a') + std::string(4000, 'b'));
  const std::string config = dir_.write(
      "run.toml", "[model]\nkind = \"gpt\"\nlayers = 6\nhidden = 16\nheads = 2\n[data]\npath = \"" +
                      dir_.path("text.txt") +
                      "\"\n[train]\nsteps = 2\nwarmup = 0\nbatch = 8\nsequence = 16\n");
  const std::string set = " --set train.out=" + out + " --set devices.count=4";
  const std::string chunks =
      " --set parallel.pipeline=2 --set parallel.data=2 --set parallel.schedule=interleaved "
      "--set parallel.chunks=2";
  expect_narrow("plan " + config + " --set parallel.pipeline=auto" + set);
  expect_narrow("plan " + config + chunks + set);
  expect_narrow("train " + config + chunks + set);
  expect_narrow("train " + config + " --set parallel.pipeline=auto --set train.out=" +
                dir_.path("other") + " --set devices.count=4");
  expect_narrow("report " + out + " " + dir_.path("other"));
  expect_narrow("checkpoint inspect " + out);
  expect_narrow("evaluate " + out + " --data " + dir_.path("text.txt"));
}

TEST_F(Columns, AreAtMost80OnTheEdgeAndOfThisMachine) {
  expect_narrow("doctor");
  expect_narrow("version");
  const std::string split = source_path("examples/split/run.toml");
  expect_narrow("verify --flow " + split);
}

}  // namespace
}  // namespace cleave
