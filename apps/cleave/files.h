#pragma once

#include <string>
#include <string_view>

namespace cleave::app {

/// "-" is standard input. Throws UserError if the file cannot be read or has more than 1 GiB.
std::string read_file(const std::string& path);

/// To standard output if `path` is empty or "-". Throws UserError if it cannot be written.
void write_file(const std::string& path, std::string_view text);

}  // namespace cleave::app
