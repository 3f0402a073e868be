// What the documents name exists: every `path` → `symbol` of docs/tour.md, and every path of this
// project that any of the documents has between backticks.

#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "support/paths.h"
#include <gtest/gtest.h>

namespace cleave {
namespace {

namespace fs = std::filesystem;

const fs::path kRoot = testing::source_path("");

std::string read(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> lines_of(const fs::path& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

/// What stands between backticks.
std::vector<std::string> quoted(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t at = text.find('`'); at != text.npos;) {
    const std::size_t end = text.find('`', at + 1);
    if (end == text.npos) break;
    parts.push_back(text.substr(at + 1, end - at - 1));
    at = text.find('`', end + 1);
  }
  return parts;
}

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

bool has_word(const std::string& text, const std::string& word) {
  for (std::size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if ((at == 0 || !is_word(text[at - 1])) && (end == text.size() || !is_word(text[end]))) {
      return true;
    }
  }
  return false;
}

TEST(Tour, NamesFilesAndSymbolsThatExist) {
  int stops = 0;
  for (const std::string& line : lines_of(kRoot / "docs/tour.md")) {
    const std::size_t arrow = line.find(" → ");
    if (arrow == line.npos) continue;
    const auto paths = quoted(line.substr(0, arrow));
    const auto symbols = quoted(line.substr(arrow, line.find(" — ") - arrow));
    ASSERT_EQ(paths.size(), 1u) << line;
    ASSERT_FALSE(symbols.empty()) << line;
    ASSERT_TRUE(fs::is_regular_file(kRoot / paths[0])) << line;
    const std::string text = read(kRoot / paths[0]);
    for (const std::string& symbol : symbols) EXPECT_TRUE(has_word(text, symbol)) << line;
    ++stops;
  }
  EXPECT_GE(stops, 20) << "the tour is not being read";
}

TEST(Documents, NamePathsThatExist) {
  std::vector<fs::path> documents;
  for (const fs::path& top : {kRoot, kRoot / "docs", kRoot / "docs/decisions"}) {
    for (const auto& entry : fs::directory_iterator(top)) {
      if (entry.path().extension() == ".md") documents.push_back(entry.path());
    }
  }
  int paths = 0;
  for (const fs::path& document : documents) {
    for (const std::string& line : lines_of(document)) {
      for (const std::string& part : quoted(line)) {
        const bool ours = part.starts_with("src/") || part.starts_with("tests/") ||
                          part.starts_with("apps/") || part.starts_with("docs/") ||
                          part.starts_with("examples/") || part.starts_with("scripts/");
        // Not commands, patterns or names with something to fill in.
        if (!ours || part.find_first_of(" <*{…") != part.npos) continue;
        EXPECT_TRUE(fs::exists(kRoot / part)) << document << " names " << part;
        ++paths;
      }
    }
  }
  EXPECT_GE(paths, 20) << "the documents are not being read";
}

}  // namespace
}  // namespace cleave
