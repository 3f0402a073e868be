#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace cleave::testing {

/// Every page for users and contributors: README.md and its neighbours, and docs/*.md.
std::vector<std::filesystem::path> pages();

/// The fenced blocks of a page whose fence names `language`: ```sh … ```.
std::vector<std::string> blocks(const std::filesystem::path& page, const std::string& language);

/// The commands of a page that begin with "cleave ", in blocks or between backticks, each in one
/// line.
std::vector<std::string> cleave_commands(const std::filesystem::path& page);

std::string read_page(const std::filesystem::path& page);

}  // namespace cleave::testing
