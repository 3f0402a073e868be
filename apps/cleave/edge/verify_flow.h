#pragma once

#include <string>
#include <vector>

#include "command.h"

namespace cleave::app {

struct FlowFlags {
  std::string config;
  std::vector<std::string> set;
  std::vector<std::string> policies;  ///< files
  bool json = false;
};

/// Prints what leaves whom in a step of the run that a config describes. Answers Exit::Failed, with
/// the path, if an owner does not allow it, in the config or in a
/// policy. Throws UserError if the config has no owners.
void verify_flow(const FlowFlags& flags, Exit& answer);

}  // namespace cleave::app
