#include "cleave/report/lanes.h"

#include <algorithm>
#include <cmath>

#include "cleave/report/palette.h"

namespace cleave::report {

std::vector<std::string> lanes(const plan::Trace& trace, double until, int columns) {
  std::vector<std::string> result(static_cast<std::size_t>(trace.devices),
                                  std::string(static_cast<std::size_t>(columns), ' '));
  if (until <= 0) return result;
  // The first column whose middle is not before `time`.
  const auto column_of = [&](double time) {
    const double at = std::ceil(time / until * columns - 0.5);
    return static_cast<int>(std::clamp(at, 0.0, static_cast<double>(columns)));
  };
  for (const plan::Span& span : trace.spans) {
    if (span.kind == plan::SpanKind::Transfer) continue;  // the device may compute meanwhile
    std::string& lane = result[span.device];
    std::fill(lane.begin() + column_of(span.begin), lane.begin() + column_of(span.end),
              letter_of(paint_of(span)));
  }
  return result;
}

}  // namespace cleave::report
