#pragma once

#include <string>

#include "cleave/train/run.h"

namespace cleave::app {

/// Throws UserError unless the name ends in .json, .html or .svg.
void check_trace_name(const std::string& path);

/// The last step as it was measured, over what was predicted: a Chrome trace (.json), a page
/// (.html) or a picture (.svg).
void write_trace(const std::string& path, const train::RunReport& report);

}  // namespace cleave::app
