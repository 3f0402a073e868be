#include "schedule/program_file.h"

#include <cstdio>

#include "files.h"
#include "streams.h"
#include "words.h"
#include <fmt/format.h>

#include "cleave/base/check.h"
#include "cleave/schedule/text.h"
#include "cleave/schedule/torch_csv.h"

namespace cleave::app {

namespace {

/// "line 3, column 7: …" with the file in front, as compilers write it.
std::string located(const std::string& path, const std::string& message) {
  int line = 0;
  int column = 0;
  int rest = 0;
  if (std::sscanf(message.c_str(), "line %d, column %d: %n", &line, &column, &rest) < 2) {
    return path + ": " + message;
  }
  return fmt::format("{}:{}:{}: {}", path, line, column, message.substr(rest));
}

/// The text form begins with "cleave-program", after comments if there are any.
bool is_text_form(std::string_view text) {
  for (std::string_view line : split(text.substr(0, 1 << 16), '\n')) {
    if (!line.empty() && !line.starts_with('#')) return line.starts_with("cleave");
  }
  return false;
}

schedule::Program parse(const std::string& path, std::string_view text) {
  if (!is_text_form(text)) return schedule::parse_torch_csv(text);
  schedule::ReadProgram read = schedule::read_text(text);
  if (!read.hash_matches) {
    complain("cleave: {} was changed after its hash was written; reading it as it is\n", path);
  }
  return std::move(read.program);
}

}  // namespace

schedule::Program read_program(const std::string& path) {
  const std::string text = read_file(path);
  try {
    return parse(path, text);
  } catch (const UserError& error) {
    throw UserError(located(path == "-" ? "standard input" : path, error.what()));
  }
}

}  // namespace cleave::app
