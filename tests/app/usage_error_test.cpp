// What a wrong command line is answered with: the words of CLI11 speak of subcommands and of what
// was not expected.

#include "usage_error.h"

#include <string>

#include <gtest/gtest.h>

namespace cleave::app {
namespace {

/// The sentence after `words`, for a program with two verbs.
std::string said_of(const std::string& words) {
  CLI::App app("", "cleave");
  app.require_subcommand(1);
  CLI::App* train = app.add_subcommand("train", "");
  std::string config;
  std::vector<std::string> settings;
  int steps = 0;
  double patience = 0;
  bool json = false;
  train->add_option("config", config)->required();
  train->add_option("--set", settings);
  train->add_option("--steps", steps);
  train->add_option("--patience", patience);
  train->add_flag("--json", json);
  CLI::App* data = app.add_subcommand("data", "");
  data->require_subcommand(1);
  data->add_subcommand("pack", "");
  data->add_subcommand("tokenize", "");
  try {
    app.parse(words);
  } catch (const CLI::ParseError& error) {
    return sentence_of(app, error) + "; see " + verb_of(app);
  }
  return "";
}

TEST(UsageError, NamesTheOptionThatIsNotThereAndTheOneThatWasMeant) {
  EXPECT_EQ(said_of("train a.toml --sett b=c"),
            "cleave train has no option --sett; did you mean --set?; see cleave train");
  EXPECT_EQ(said_of("train a.toml --jsno=1"),
            "cleave train has no option --jsno; did you mean --json?; see cleave train");
  EXPECT_EQ(said_of("train a.toml -x"), "cleave train has no option -x; see cleave train");
  EXPECT_EQ(said_of("--frobnicate"), "cleave has no option --frobnicate; see cleave");
}

TEST(UsageError, NamesAWordTooMany) {
  EXPECT_EQ(said_of("train a.toml b.toml"),
            "cleave train has no use for 'b.toml'; leave it out; see cleave train");
}

TEST(UsageError, SaysWhatAValueMustBe) {
  EXPECT_EQ(said_of("train a.toml --patience abc"),
            "--patience abc must be a number that is not too large; see cleave train");
  EXPECT_EQ(said_of("train a.toml --steps 1.5"),
            "--steps 1.5 must be a whole number that is not too large; see cleave train");
  EXPECT_EQ(said_of("train a.toml --steps"), "--steps needs a value; see cleave train");
  EXPECT_EQ(said_of("train a.toml --json=maybe"),
            "--json takes no value; leave out maybe; see cleave train");
}

TEST(UsageError, ListsTheVerbsOfAVerb) {
  EXPECT_EQ(said_of("data"), "data needs a verb; known are pack, tokenize; see cleave data");
}

TEST(UsageError, LeavesWhatIsClearAsItIs) {
  EXPECT_EQ(said_of("train"), "config is required; see cleave train");
  EXPECT_EQ(said_of("train a.toml --steps 5 --set b=c"), "");
}

}  // namespace
}  // namespace cleave::app
