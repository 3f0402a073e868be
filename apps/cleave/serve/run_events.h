#pragma once

#include <string>

#include "cleave/comm/tcp/server.h"
#include "cleave/train/loop/metrics_log.h"

namespace cleave::app {

/// With the time of the moment.
train::RunEvent event_now(const std::string& kind, std::int64_t step, const std::string& text);

/// What befell a device, with the time at which it did.
train::RunEvent event_of(const comm::MemberEvent& event, std::int64_t step);

/// Adds a line to the log of the run in directory `out`, if there is one: the log of the steps is
/// closed between two epochs. A disk that is full ends no run by this.
void log_event(const std::string& out, const train::RunEvent& event);

}  // namespace cleave::app
