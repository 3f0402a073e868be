#pragma once

#include <span>
#include <string>

#include "cleave/report/timeline.h"

namespace cleave::report {

/// The timelines as one SVG picture, stacked on a common time axis: a row per device with its share
/// of busy time and its peak of live activations. Stands alone; follows the viewer's colour scheme.
/// `width` in pixels, at least 400.
std::string timeline_svg(std::span<const Timeline> timelines, int width = 1200);

}  // namespace cleave::report
