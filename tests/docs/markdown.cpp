#include "docs/markdown.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>

#include "support/paths.h"

namespace cleave::testing {

namespace fs = std::filesystem;

std::vector<fs::path> pages() {
  std::vector<fs::path> found;
  for (const char* folder : {"", "docs", "examples"}) {
    for (const auto& entry : fs::directory_iterator(source_path(folder))) {
      if (entry.path().extension() == ".md") found.push_back(entry.path());
    }
  }
  std::ranges::sort(found);
  return found;
}

std::string read_page(const fs::path& page) {
  std::ifstream file(page);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<Block> blocks(const fs::path& page) {
  std::vector<Block> found;
  std::istringstream lines(read_page(page));
  bool inside = false;
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.starts_with("```")) {
      inside = !inside;
      if (!inside) continue;
      const auto blank = std::min(line.find(' '), line.size());
      const std::string note = line.substr(std::min(blank + 1, line.size()));
      found.push_back({.language = line.substr(3, blank - 3), .note = note, .line = number});
    } else if (inside) {
      found.back().text += line + '\n';
    }
  }
  return found;
}

std::vector<std::string> indented_code(const fs::path& page) {
  std::vector<std::string> found;
  std::istringstream lines(read_page(page));
  bool fenced = false;
  std::string before;
  for (std::string line; std::getline(lines, line); before = line) {
    if (line.starts_with("```")) fenced = !fenced;
    if (!fenced && before.empty() && line.starts_with("    ")) found.push_back(line);
  }
  return found;
}

namespace {

/// What a shell would take for the command: without a comment, or what a pipe makes of it.
std::string command_of(std::string line) {
  line.erase(0, line.find_first_not_of(' '));
  for (const char* end : {" #", " |", " >", ";", " && ", " \\"})
    line = line.substr(0, line.find(end));
  return line;
}

/// Not the line of a config that says a version.
bool is_command(const std::string& text) {
  return text.starts_with("cleave ") && !text.starts_with("cleave =");
}

}  // namespace

std::vector<std::string> cleave_commands(const fs::path& page) {
  std::vector<std::string> found;
  std::istringstream lines(read_page(page));
  bool fenced = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("```")) fenced = !fenced;
    const bool block = fenced || line.starts_with("    ");
    if (block && is_command(command_of(line))) found.push_back(command_of(line));
    if (block) continue;
    for (auto at = line.find("`cleave "); at != line.npos; at = line.find("`cleave ", at + 1)) {
      const auto end = line.find('`', at + 1);
      const std::string command = command_of(line.substr(at + 1, end - at - 1));
      if (is_command(command)) found.push_back(command);
    }
  }
  return found;
}

}  // namespace cleave::testing
