#pragma once

#include <optional>
#include <string>

#include "plan/cluster_file.h"

#include "cleave/plan/tune/analytic/workload.h"

namespace cleave::app {

/// What `cleave plan` was asked about a cluster.
struct PlanFlags {
  std::string model;    ///< "kind=gpt,layers=…", or a preset
  std::string cluster;  ///< "a100-80gb:1024", or a TOML file
  std::string trained;  ///< "projector,language"; empty: all of the model
  std::int64_t batch = 0;
  std::optional<std::string> layout;  ///< empty: search
  std::string tokens;                 ///< of the whole run: "300B"; empty: not asked
  std::optional<double> price;        ///< of a device and hour
  std::string system;                 ///< --export; empty: the answer itself
  ClusterFile file;                   ///< what `cluster` names, if it is a file
};

/// Throws UserError, naming the value, the rule and the remedy.
plan::Workload parse_workload(const PlanFlags& flags);

/// "tp=8,pp=4,…": what is left out takes its default; data fills the cluster.
plan::Layout parse_layout(std::string_view text, const plan::Workload& workload);

}  // namespace cleave::app
