#pragma once

#include <string>

#include "cleave/train/loop/run.h"

namespace cleave::app {

/// Throws UserError unless the name ends in .json, .html or .svg and, as far as that can be told
/// without writing, can be written. Its directory must exist, or be `will_be_made`.
void check_trace_name(const std::string& path, const std::string& will_be_made = "");

/// The last step as it was measured, over what was predicted: a Chrome trace (.json), a page
/// (.html) or a picture (.svg). Throws IoError, and then leaves the file as it was.
void write_trace(const std::string& path, const train::RunReport& report);

}  // namespace cleave::app
