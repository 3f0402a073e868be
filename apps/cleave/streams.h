#pragma once

#include <cstdio>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace cleave::app {

/// Opens on /dev/null what is closed of standard input, output and error. Otherwise the next file
/// that is opened would get their numbers, and what is printed would go into a checkpoint.
void open_standard_streams();

/// Lets a write past the limit on file sizes fail as a write to a full disk does, instead of ending
/// the process.
void survive_file_limit();

/// Writes `text` as far as `file` takes it: nothing that is only said may end what it is about.
void print_text(std::FILE* file, std::string_view text);

/// A sentence for people, on standard error.
template <class... Values>
void complain(fmt::format_string<Values...> format, Values&&... values) {
  print_text(stderr, fmt::format(format, std::forward<Values>(values)...));
}

}  // namespace cleave::app
