#pragma once

#include <cstdint>

namespace cleave::report {

enum class Ink : std::uint8_t { Plain, Palette256, TrueColour };

/// What text may look like where it goes.
struct Terminal {
  int columns = 100;
  Ink ink = Ink::Plain;
};

/// Colour only on a terminal that is not "dumb" and without NO_COLOR in the environment
/// (no-color.org), true colour where COLORTERM promises it; the width is the terminal's, else
/// COLUMNS, else 100.
Terminal terminal_of(int file_descriptor);

}  // namespace cleave::report
