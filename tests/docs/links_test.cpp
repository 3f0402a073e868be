// Every link of a document leads to a file of this project, and where it names a heading, to one
// that is there; the index of decisions has all of them.

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "docs/markdown.h"
#include "support/paths.h"
#include <gtest/gtest.h>

namespace cleave {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> pages_and_decisions() {
  std::vector<fs::path> all = testing::pages();
  for (const auto& entry : fs::directory_iterator(testing::source_path("docs/decisions")))
    if (entry.path().extension() == ".md") all.push_back(entry.path());
  return all;
}

/// Lines outside of fenced blocks.
std::vector<std::string> prose(const fs::path& page) {
  std::vector<std::string> found;
  std::istringstream lines(testing::read_page(page));
  bool fenced = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("```")) fenced = !fenced;
    if (!fenced) found.push_back(line);
  }
  return found;
}

/// As pages that show Markdown name a heading: "## What is *there*?" is what-is-there.
std::string anchor_of(const std::string& heading) {
  std::string anchor;
  for (const char c : heading.substr(heading.find(' ') + 1)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x80 || std::isalnum(byte) != 0 || c == '-' || c == '_')
      anchor += static_cast<char>(std::tolower(byte));
    if (c == ' ') anchor += '-';
  }
  return anchor;
}

bool has_heading(const fs::path& page, const std::string& anchor) {
  return std::ranges::any_of(prose(page), [&](const std::string& line) {
    return line.starts_with('#') && anchor_of(line) == anchor;
  });
}

TEST(Links, LeadToFilesAndHeadingsThatExist) {
  const std::regex link(R"(\]\(([^)\s]+)\))");
  int found = 0;
  for (const fs::path& page : pages_and_decisions()) {
    for (const std::string& line : prose(page)) {
      for (std::sregex_iterator at(line.begin(), line.end(), link), end; at != end; ++at) {
        const std::string target = (*at)[1];
        if (target.find("://") != target.npos) continue;
        const auto hash = std::min(target.find('#'), target.size());
        const fs::path file = hash == 0 ? page : page.parent_path() / target.substr(0, hash);
        ++found;
        ASSERT_TRUE(fs::exists(file)) << page << " links to " << target;
        if (hash == target.size()) continue;
        EXPECT_TRUE(has_heading(file, target.substr(hash + 1))) << page << " links to " << target;
      }
    }
  }
  EXPECT_GE(found, 100) << "the pages are not being read";
}

TEST(Links, OfTheIndexAreAllDecisions) {
  const std::string index = testing::read_page(testing::source_path("docs/decisions/README.md"));
  for (const fs::path& page : pages_and_decisions()) {
    const std::string name = page.filename().string();
    if (page.parent_path().filename() != "decisions" || name == "README.md") continue;
    EXPECT_NE(index.find("[" + name.substr(0, 4) + "](" + name + ")"), index.npos) << name;
  }
}

}  // namespace
}  // namespace cleave
