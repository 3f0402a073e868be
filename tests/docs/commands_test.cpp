// What the documents tell people to type works: every block says what it is; commands, transcripts
// and Python run as they stand, configs load, and every command names verbs and options that the
// program has.

#include <cstdlib>
#include <fstream>
#include <map>
#include <regex>
#include <set>
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

constexpr const char* kPrelude = R"(set -euo pipefail
# What a transcript shows is part of what the command prints, but for how lines are broken.
expect() {
  local wanted got
  wanted=$(tr -s ' \n' ' ' | sed 's/ $//')
  got=$(tr -s ' \n' ' ' <<<"$1")
  case "$got" in *"$wanted"*) ;; *) echo "wanted: $wanted"; echo "got: $got"; return 1 ;; esac
}
)";

/// Commands after "$ ", each followed by what it prints.
std::string transcript(const std::string& text) {
  std::string script;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("$ ")) {
      if (!script.empty()) script += "END_OF_OUTPUT\n";
      script += "expect \"$(" + line.substr(2) + " 2>&1 || true)\" <<'END_OF_OUTPUT'\n";
    } else {
      script += line + "\n";
    }
  }
  return script + "END_OF_OUTPUT\n";
}

/// A block that a test cannot run says why, after this word.
constexpr std::string_view kElsewhere = "elsewhere: ";

bool is_elsewhere(const testing::Block& block) {
  return block.note.starts_with(kElsewhere);
}

/// What a block does when a reader follows the page: nothing if it only shows something.
std::string script_of(const testing::Block& block) {
  if (is_elsewhere(block)) return "";
  const std::string here = "<<'END_OF_BLOCK'\n" + block.text + "END_OF_BLOCK\n";
  if (!block.note.empty()) return "cat > " + block.note + " " + here;
  if (block.language == "sh") return block.text;
  if (block.language == "python") return "/usr/bin/python3 -B - " + here;
  if (block.language == "console") return transcript(block.text);
  return "";
}

// Of blocks for elsewhere the syntax is checked here; verbs, options, targets and files below.
TEST(Commands, RunAsTheyStandInEveryPage) {
  int run = 0;
  for (const fs::path& page : testing::pages()) {
    const TemporaryDirectory directory;
    const std::string bin = fs::path(testing::cleave_binary()).parent_path().string();
    fs::create_symlink(testing::source_path("examples"), directory.path("examples"));
    std::string script = kPrelude + ("cd " + directory.path("") + "\nPATH=" + bin + ":$PATH\n") +
                         "export PYTHONPATH=" + testing::source_path("python") +
                         " CLEAVE_LIBRARY=" + bin + "/libcleave.so\n";
    for (const testing::Block& block : testing::blocks(page)) {
      script += script_of(block);
      if (block.language == "sh" && is_elsewhere(block))
        script += "bash -n <<'END_OF_BLOCK'\n" + block.text + "END_OF_BLOCK\n";
      ++run;
    }
    const std::string file = directory.write(".script", script);
    const int status =
        std::system(("bash " + file + " >" + directory.path(".out") + " 2>&1").c_str());
    EXPECT_EQ(status, 0) << page << "\n" << testing::read_text(directory.path(".out"));
  }
  EXPECT_GE(run, 30) << "the pages are not being read";
}

TEST(Commands, StandInBlocksThatSayWhatTheyAre) {
  const std::set<std::string> known = {"sh", "toml", "python", "console", "text", "csv", "cmake"};
  // Minutes of two cores; packages that a network brings; root; several machines; the package that
  // scripts/check_package installs, and tries this against.
  const std::set<std::string> reasons = {"minutes", "network", "root", "cluster", "installed"};
  for (const fs::path& page : testing::pages()) {
    for (const testing::Block& block : testing::blocks(page)) {
      EXPECT_EQ(known.count(block.language), 1) << page << ":" << block.line;
      if (!block.note.starts_with("elsewhere")) continue;
      const std::string reason =
          is_elsewhere(block) ? block.note.substr(kElsewhere.size()) : "none";
      EXPECT_EQ(reasons.count(reason), 1) << page << ":" << block.line << " for reason " << reason;
    }
    if (page.filename() == "ARCHITECTURE.md") continue;  // which has drawings
    EXPECT_EQ(testing::indented_code(page), std::vector<std::string>()) << page;
  }
}

/// Whether the front door of the project has the target.
bool is_target(const std::string& name) {
  std::ifstream makefile(testing::source_path("Makefile"));
  for (std::string line; std::getline(makefile, line);) {
    const std::string targets = " " + line.substr(0, line.find(':')) + " ";
    if (line.find(':') != line.npos && targets.find(" " + name + " ") != targets.npos) return true;
  }
  return false;
}

TEST(Commands, ThatRunElsewhereNameTargetsAndFilesThatAreThere) {
  const std::regex target(R"((?:^|\n)make ([a-z-]+))");
  const std::regex file(R"((?:^|\s)((?:bench|scripts|examples)/[\w/.-]*\w))");
  int found = 0;
  for (const fs::path& page : testing::pages()) {
    for (const testing::Block& block : testing::blocks(page)) {
      if (!is_elsewhere(block)) continue;
      const std::string& text = block.text;
      for (std::sregex_iterator at(text.begin(), text.end(), target), end; at != end; ++at, ++found)
        EXPECT_TRUE(is_target((*at)[1])) << page << ": make " << (*at)[1];
      for (std::sregex_iterator at(text.begin(), text.end(), file), end; at != end; ++at, ++found)
        EXPECT_TRUE(fs::exists(testing::source_path((*at)[1]))) << page << ": " << (*at)[1];
    }
  }
  EXPECT_GE(found, 25) << "the pages are not being read";
}

// Those that are written to a file are loaded by the commands of their page.
TEST(Commands, LoadEveryConfigOfThePages) {
  int loaded = 0;
  for (const fs::path& page : testing::pages()) {
    for (testing::Block& block : testing::blocks(page)) {
      if (block.language != "toml" || !block.note.empty()) continue;
      if (block.text.find("model") == block.text.npos)
        block.text += "[model]\npreset = \"gpt-tiny\"\n";
      EXPECT_NO_THROW(train::parse_config(block.text, page.filename().string())) << block.text;
      ++loaded;
    }
  }
  EXPECT_GE(loaded, 3) << "the pages are not being read";
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
  for (const char* end : {" ", "\n", ",", "["}) {
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
