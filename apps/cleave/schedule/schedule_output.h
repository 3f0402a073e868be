#pragma once

#include <span>
#include <string>

#include "schedule/schedule_run.h"

#include "cleave/report/terminal.h"

namespace cleave::app {

enum class ScheduleFormat { Picture, Text, Csv, Svg, Html, Trace };

/// "svg" and so on; if empty, by the ending of `path`, and Picture without one. Throws UserError.
ScheduleFormat parse_format(const std::string& name, const std::string& path);

/// The verified `runs` in `format`. Throws UserError where a format takes one schedule only.
std::string render(std::span<const ScheduleRun> runs, ScheduleFormat format,
                   const report::Terminal& terminal);

/// One object for one run; for several an object with the list `schedules`.
std::string to_json(std::span<const ScheduleRun> runs);

}  // namespace cleave::app
