#include "cleave/report/terminal.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include <sys/ioctl.h>
#include <unistd.h>

namespace cleave::report {

namespace {

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

int columns_of(int file_descriptor) {
  winsize size{};
  if (ioctl(file_descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  const int wanted = std::atoi(environment("COLUMNS").data());
  return wanted > 0 ? wanted : Terminal{}.columns;
}

Ink ink_of(int file_descriptor) {
  if (isatty(file_descriptor) != 1 || !environment("NO_COLOR").empty()) return Ink::Plain;
  if (environment("TERM") == "dumb") return Ink::Plain;
  const std::string_view promise = environment("COLORTERM");
  return promise == "truecolor" || promise == "24bit" ? Ink::TrueColour : Ink::Palette256;
}

}  // namespace

Terminal terminal_of(int file_descriptor) {
  return {.columns = std::clamp(columns_of(file_descriptor), 10, 500),
          .ink = ink_of(file_descriptor)};
}

}  // namespace cleave::report
