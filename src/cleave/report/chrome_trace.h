#pragma once

#include <span>
#include <string>

#include "cleave/report/timeline.h"

namespace cleave::report {

/// The timelines as Chrome trace JSON, which ui.perfetto.dev and chrome://tracing open: a process
/// per timeline, a thread per device, messages as asynchronous events. Plain numbers are shown as
/// milliseconds.
std::string chrome_trace(std::span<const Timeline> timelines);

}  // namespace cleave::report
