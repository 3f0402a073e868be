#pragma once

#include <string>

#include "cleave/edge/policy.h"

namespace cleave::app {

/// The policy that an owner wrote down: docs/edge.md. Throws UserError with file and line.
edge::Policy read_policy(const std::string& path);

}  // namespace cleave::app
