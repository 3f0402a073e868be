#pragma once

#include <span>
#include <string>
#include <string_view>

#include "cleave/report/timeline.h"

namespace cleave::report {

/// The timelines as one HTML file that needs nothing else: stacked on a common
/// time axis, with zoom, pan and what is under the pointer. All traces have the
/// unit of the first.
std::string timeline_html(std::span<const Timeline> timelines, std::string_view title);

}  // namespace cleave::report
