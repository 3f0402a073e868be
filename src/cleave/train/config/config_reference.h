#pragma once

#include <string>

namespace cleave::train {

/// Every key with its meaning, rule and default, by section, at most 80 columns wide: for --help.
std::string config_help();

/// docs/config.md: the same as Markdown, with an example of each key.
std::string config_reference();

}  // namespace cleave::train
