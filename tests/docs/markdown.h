#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace cleave::testing {

/// Every page for users and contributors: README.md and its neighbours, docs/*.md and that of
/// examples/.
std::vector<std::filesystem::path> pages();

/// A fenced block: ```language note … ```. It may stand in a comment, where readers do not see it.
struct Block {
  std::string language;
  std::string note;  ///< "elsewhere", or the name of a file; may be empty
  std::string text;
  int line = 0;  ///< of the page
};
std::vector<Block> blocks(const std::filesystem::path& page);

/// Lines of a page that are code by indentation, which says nothing of their language.
std::vector<std::string> indented_code(const std::filesystem::path& page);

/// The commands of a page that begin with "cleave ", in blocks or between backticks, each in one
/// line.
std::vector<std::string> cleave_commands(const std::filesystem::path& page);

std::string read_page(const std::filesystem::path& page);

}  // namespace cleave::testing
