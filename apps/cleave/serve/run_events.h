#pragma once

#include <string>

#include "cleave/train/loop/metrics_log.h"

namespace cleave::app {

/// Adds a line to the log of the run in directory `out`, if there is one: the log of the steps is
/// closed between two epochs. A disk that is full ends no run by this.
void log_event(const std::string& out, const train::RunEvent& event);

}  // namespace cleave::app
