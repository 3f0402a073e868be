#pragma once

#include <string>
#include <string_view>

namespace cleave::app {

/// "-" is standard input. Throws UserError if the file cannot be read or has more than 1 GiB.
std::string read_file(const std::string& path);

/// To standard output if `path` is empty or "-". Throws UserError if there can be no such file, and
/// std::runtime_error, leaving none, if it cannot take all of `text`.
void write_file(const std::string& path, std::string_view text);

/// Throws std::runtime_error unless everything that was printed has left.
void finish_output();

}  // namespace cleave::app
