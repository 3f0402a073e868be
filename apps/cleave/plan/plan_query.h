#pragma once

#include <optional>
#include <string>

#include "cleave/plan/tune/analytic/layout.h"

namespace cleave::app {

/// What `cleave plan` was asked about a cluster.
struct PlanFlags {
  std::string model;    ///< "kind=gpt,layers=…", or a preset
  std::string cluster;  ///< "a100-80gb:1024"
  std::int64_t batch = 0;
  std::optional<std::string> layout;  ///< empty: search
};

/// Throws UserError, naming the value, the rule and the remedy.
plan::Workload parse_workload(const PlanFlags& flags);

/// "tp=8,pp=4,…": what is left out takes its default; data fills the cluster.
plan::Layout parse_layout(std::string_view text, const plan::Workload& workload);

}  // namespace cleave::app
