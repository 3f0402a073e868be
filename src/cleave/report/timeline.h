#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/plan/time/trace.h"

namespace cleave::report {

/// A trace with what it comes to: what every picture is drawn from. Several are stacked on one time
/// axis, in the order given.
struct Timeline {
  plan::Trace trace;
  plan::Summary summary;
};

/// [stage] -> its place among the stages of its device, in order of stage number.
std::vector<int> chunk_of_stage(const plan::Trace& trace);

/// The end of the common time axis: the longest makespan, or 1 when nothing takes time.
double common_end(std::span<const Timeline> timelines);

/// Distances between ticks of 1, 2 or 5 times a power of ten, at most `most` of them up to `end`.
double tick_distance(double end, int most);

/// "18.5 ms" for seconds, "18.5" for plain numbers.
std::string format_time(double time, std::string_view unit);

/// "makespan 96 · bubble 24.3 %"
std::string headline(const Timeline& timeline);

}  // namespace cleave::report
