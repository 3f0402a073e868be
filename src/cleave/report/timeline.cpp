#include "cleave/report/timeline.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "cleave/base/check.h"
#include "cleave/base/units.h"

namespace cleave::report {

std::vector<int> chunk_of_stage(const plan::Trace& trace) {
  std::vector<std::set<int>> stages(trace.devices);
  int last_stage = -1;
  for (const plan::Span& span : trace.spans) {
    const int stage = span.instruction.stage;
    if (span.kind != plan::SpanKind::Compute || stage < 0) continue;
    stages.at(span.device).insert(stage);
    last_stage = std::max(last_stage, stage);
  }
  std::vector<int> chunks(last_stage + 1, 0);
  for (const std::set<int>& of_device : stages) {
    int place = 0;
    for (int stage : of_device) chunks[stage] = place++;
  }
  return chunks;
}

double common_end(std::span<const Timeline> timelines) {
  double end = 0;
  for (const Timeline& timeline : timelines) end = std::max(end, timeline.summary.makespan);
  return end > 0 ? end : 1;
}

double tick_distance(double end, int most) {
  CLEAVE_CHECK(end > 0 && most > 0, end, " ", most);
  const double power = std::pow(10.0, std::floor(std::log10(end / most)));
  for (double factor : {1.0, 2.0, 5.0}) {
    if (end / (factor * power) <= most) return factor * power;
  }
  return 10 * power;
}

std::string format_time(double time, std::string_view unit) {
  return unit == "s" ? format_seconds(time) : fmt::format("{:.6g}", time);
}

std::string headline(const Timeline& timeline) {
  return fmt::format("makespan {} · bubble {:.1f} %",
                     format_time(timeline.summary.makespan, timeline.trace.unit),
                     100 * timeline.summary.bubble_rate);
}

}  // namespace cleave::report
