#pragma once

#include <string>
#include <vector>

#include "cleave/plan/time/trace.h"

namespace cleave::report {

/// [device] What each device does in the middle of each of `columns` equal parts of [0, until), as
/// letters of letter_of(); a blank where it does nothing. As much of a timeline as so many pixels
/// show, whatever its length.
std::vector<std::string> lanes(const plan::Trace& trace, double until, int columns);

}  // namespace cleave::report
