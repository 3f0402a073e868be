#pragma once

#include <string>

#include "cleave/report/terminal.h"
#include "cleave/report/timeline.h"

namespace cleave::report {

/// The timeline as the tables in papers draw it: a line per device, a box per instruction with its
/// microbatch where there is room. In colour the boxes are coloured; without, a box begins with
/// F I W B R C S (lower case on odd chunks) and idle time is dots. Where several boxes share a
/// character, the one that takes most of it is shown. Ends with a legend.
std::string timeline_text(const Timeline& timeline, const Terminal& terminal);

}  // namespace cleave::report
