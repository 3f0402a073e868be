// What the documents tell people to type works: blocks marked `sh` run as they stand, configs load,
// and every other command names verbs and options that the program has.

#include <cstdlib>
#include <map>
#include <sstream>

#include "app/run_cleave.h"
#include "docs/markdown.h"
#include "support/paths.h"
#include "support/temporary_directory.h"
#include <gtest/gtest.h>

#include "cleave/train/config/config.h"

namespace cleave {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryDirectory;

TEST(Commands, RunAsTheyStandInEveryPage) {
  int run = 0;
  for (const fs::path& page : testing::pages()) {
    const TemporaryDirectory directory;
    const std::string path = fs::path(testing::cleave_binary()).parent_path().string();
    std::string script =
        "set -euo pipefail\ncd " + directory.path("") + "\nPATH=" + path + ":$PATH\n";
    for (const std::string& block : testing::blocks(page, "sh")) {
      script += block;
      ++run;
    }
    const std::string file = directory.write(".script", script);
    const int status =
        std::system(("bash " + file + " >" + directory.path(".out") + " 2>&1").c_str());
    EXPECT_EQ(status, 0) << page << "\n" << testing::read_text(directory.path(".out"));
  }
  EXPECT_GE(run, 3) << "the pages are not being read";
}

TEST(Commands, LoadEveryConfigOfThePages) {
  int loaded = 0;
  for (const fs::path& page : testing::pages()) {
    for (const std::string& block : testing::blocks(page, "toml")) {
      EXPECT_NO_THROW(train::parse_config(block, page.filename().string())) << block;
      ++loaded;
    }
  }
  EXPECT_GE(loaded, 1) << "the pages are not being read";
}

/// The help of the verb with which the command begins, asked for once.
std::string help_of(const std::vector<std::string>& verb) {
  static std::map<std::vector<std::string>, std::string> known;
  const auto [place, fresh] = known.try_emplace(verb);
  std::string words;
  for (const std::string& word : verb) words += " " + word;
  if (fresh) place->second = testing::run_cleave("help" + words).out;
  return place->second;
}

bool has_entry(const std::string& help, const std::string& name) {
  for (const char* end : {" ", "\n", ",", "{"}) {
    if (help.find("  " + name + end) != help.npos || help.find("," + name + end) != help.npos)
      return true;
  }
  return false;
}

/// What the program does not know of the command; empty if all is there.
std::string unknown_in(const std::string& command) {
  std::istringstream words(command);
  std::string word;
  words >> word;  // cleave
  std::vector<std::string> verb;
  while (words >> word) {
    if (word.starts_with("--")) {
      const std::string name = word.substr(0, word.find_first_of("=[.,`')"));
      if (!has_entry(help_of(verb), name)) return name;
      continue;
    }
    const std::string help = help_of(verb);
    const bool takes_verb =
        help.find("\nVerbs:\n") != help.npos || help.find("\nSubcommands:\n") != help.npos;
    if (!takes_verb || word == "VERB") continue;
    if (has_entry(help, word)) {
      verb.push_back(word);
    } else if (help.find("\nArguments:\n") == help.npos) {
      return word;
    }
  }
  return "";
}

TEST(Commands, NameVerbsAndOptionsThatExist) {
  int commands = 0;
  for (const fs::path& page : testing::pages()) {
    for (const std::string& command : testing::cleave_commands(page)) {
      EXPECT_EQ(unknown_in(command), "") << page << ": " << command;
      ++commands;
    }
  }
  EXPECT_GE(commands, 30) << "the pages are not being read";
}

}  // namespace
}  // namespace cleave
