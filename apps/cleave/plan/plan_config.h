#pragma once

#include <string>
#include <vector>

#include "command.h"

namespace cleave::app {

/// What `cleave plan run.toml` was asked.
struct PlanConfigFlags {
  std::string config;
  std::vector<std::string> set;
  std::string trace;       ///< where the predicted timeline goes; empty: nowhere
  bool remeasure = false;  ///< takes nothing that was measured before
  bool json = false;
};

/// Plans a run of this machine, or of the ranks that mpirun started: resolves what is "auto",
/// measures, prints (rank 0 alone). `answer` becomes DoesNotFit if no layout fits.
void plan_config(const PlanConfigFlags& flags, Exit& answer);

}  // namespace cleave::app
