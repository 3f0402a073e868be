// What a user looks things up with: help, man pages, completion, presets, version, init.

#include <algorithm>
#include <sstream>
#include <vector>

#include "app/run_cleave.h"
#include "support/temporary_directory.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace cleave {
namespace {

using testing::Answer;
using testing::run_cleave;
using testing::TemporaryDirectory;

TEST(Help, IsWhatTheProgramSaysWithoutArguments) {
  const Answer alone = run_cleave("");
  EXPECT_EQ(alone.exit, 0);
  EXPECT_NE(alone.out.find("cleave init text"), std::string::npos);
  EXPECT_EQ(run_cleave("help").out, alone.out);
  EXPECT_EQ(run_cleave("--help").out, alone.out);
}

TEST(Help, ExplainsAVerbAsItsOwnFlagDoes) {
  EXPECT_EQ(run_cleave("help bench schedule").out, run_cleave("bench schedule --help").out);
  const Answer wrong = run_cleave("help bench nothing");
  EXPECT_EQ(wrong.exit, 2);
  EXPECT_EQ(wrong.err, "cleave: there is no verb 'nothing' of bench; see cleave help\n");
}

TEST(Help, ShowsThatACommandFollowsTheOptions) {
  const std::string usage = "Usage: cleave supervise [OPTIONS] COMMAND...\n";
  EXPECT_NE(run_cleave("help supervise").out.find(usage), std::string::npos)
      << run_cleave("help supervise").out;
  EXPECT_EQ(run_cleave("help train").out.find("COMMAND"), std::string::npos);
  const std::string page = run_cleave("reference man supervise").out;
  EXPECT_NE(page.find(".B cleave supervise [OPTIONS] COMMAND...\n"), std::string::npos) << page;
}

/// Of the list that `cleave help` has.
std::vector<std::string> verbs() {
  const std::string help = run_cleave("help").out;
  std::istringstream list(help.substr(help.find("Verbs:\n") + 7));
  std::vector<std::string> found;
  for (std::string line; std::getline(list, line) && !line.empty();) {
    if (line[2] != ' ') found.push_back(line.substr(2, line.find(' ', 2) - 2));
  }
  return found;
}

TEST(Help, StaysWithinEightyColumns) {
  std::vector<std::string> all = verbs();
  ASSERT_GT(all.size(), 5u);
  all.insert(all.end(), {"", "bench schedule", "data pack", "edge simulate"});
  const auto continues = [](char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; };
  for (const std::string& verb : all) {
    std::istringstream text(run_cleave("help " + verb).out);
    for (std::string line; std::getline(text, line);)
      EXPECT_LE(std::ssize(line) - std::ranges::count_if(line, continues), 80)
          << verb << ": " << line;
  }
}

TEST(Help, ShowsWhichFlagsMayHaveAValue) {
  const std::string help = run_cleave("help train").out;
  EXPECT_NE(help.find("  --resume[=VALUE] "), std::string::npos) << help;
  EXPECT_NE(help.find("  --dashboard[=VALUE]"), std::string::npos) << help;
  EXPECT_EQ(help.find("--resume{"), std::string::npos) << help;
}

TEST(Help, SaysWhatHoldsWithoutAFlag) {
  EXPECT_NE(run_cleave("help edge simulate").out.find("How many (default 20)"), std::string::npos);
  EXPECT_NE(run_cleave("help data tokenize").out.find("How many (default: all cores)"),
            std::string::npos);
}

TEST(Help, BreaksLongCommandsAsAShellReadsThem) {
  const std::string help = run_cleave("help schedule").out;
  EXPECT_NE(help.find("--frozen 0,1 \\\n      --microbatches 24\n"), std::string::npos) << help;
}

TEST(Reference, WritesAManPageForEveryVerb) {
  const TemporaryDirectory directory;
  ASSERT_EQ(run_cleave("reference man --output " + directory.path("")).exit, 0);
  const std::string root = testing::read_text(directory.path("cleave.1"));
  EXPECT_NE(root.find(".BR cleave\\-schedule (1)"), std::string::npos) << root;
  const std::string page = testing::read_text(directory.path("cleave-bench-schedule.1"));
  EXPECT_TRUE(page.starts_with(".TH CLEAVE\\-BENCH\\-SCHEDULE 1")) << page;
  EXPECT_EQ(page, run_cleave("reference man bench schedule").out);
}

TEST(Reference, RefusesWhatItDoesNotHave) {
  EXPECT_EQ(run_cleave("reference tcsh").err,
            "cleave: there is no reference 'tcsh'; known are config, man, bash, zsh, fish\n");
  EXPECT_EQ(run_cleave("reference man trian").exit, 2);
}

/// What bash offers for the words, of which the last is being typed.
std::string offered(const std::string& words) {
  const TemporaryDirectory directory;
  const std::string script = directory.write("cleave.bash", run_cleave("reference bash").out);
  const std::string out = directory.path("offered");
  const std::string command = "bash -c 'compopt() { :; }; . " + script + "; COMP_WORDS=(" + words +
                              "); COMP_CWORD=$((${#COMP_WORDS[@]}-1)); _cleave; "
                              "echo \"${COMPREPLY[@]}\"' > " +
                              out;
  EXPECT_EQ(std::system(command.c_str()), 0);
  return testing::read_text(out);
}

TEST(Completion, KnowsVerbsOptionsAndKeys) {
  EXPECT_EQ(offered("cleave sch"), "schedule\n");
  EXPECT_EQ(offered("cleave bench sch"), "schedule\n");
  EXPECT_EQ(offered("cleave schedule --microb"), "--microbatches\n");
  EXPECT_EQ(offered("cleave plan --set train.warm"), "train.warmup=\n");
}

TEST(Presets, HaveExactNumbersInJson) {
  const auto all = nlohmann::json::parse(run_cleave("presets --json").out)["presets"];
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(all[0]["name"], "gpt2-124m");
  EXPECT_EQ(all[0]["parameters"], 124439808);
}

TEST(Version, SaysWhatItWasBuiltFrom) {
  const auto all = nlohmann::json::parse(run_cleave("version --json").out);
  EXPECT_EQ("cleave " + all["version"].get<std::string>() + "\n", run_cleave("--version").out);
  EXPECT_FALSE(all["commit"].get<std::string>().empty());
  EXPECT_FALSE(all["compiler"].get<std::string>().empty());
}

TEST(Init, ListsPurposesAndRefusesOthers) {
  EXPECT_NE(run_cleave("init").out.find("  text "), std::string::npos);
  EXPECT_EQ(
      run_cleave("init txt").err,
      "cleave: there is no config for 'txt'; did you mean text? Known are text, fine-tune, vision, "
      "cluster, edge\n");
}

TEST(Init, NeverOverwritesAndNamesDataThatIsMissing) {
  const TemporaryDirectory directory;
  const std::string config = directory.write("run.toml", "mine");
  const Answer taken = run_cleave("init text --output " + config);
  EXPECT_EQ(taken.exit, 2);
  EXPECT_EQ(taken.err, "cleave: " + config +
                           " exists already; move it away, or choose another name with --output\n");
  EXPECT_EQ(testing::read_text(config), "mine");
  EXPECT_EQ(run_cleave("init text --data /nowhere --output " + directory.path("b.toml")).exit, 2);
}

}  // namespace
}  // namespace cleave
