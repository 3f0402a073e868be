#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cleave/train/config/config.h"

namespace cleave::train {

/// A preprocessor_config.json for a classifier that learns from the packed set of `config`; "" if
/// that is not here, or does not say how its images were brought to their size.
std::string image_preparation_file(const Config& config);

/// What the classes of `config` are called: in the config.json of `beside`, or else in its packed
/// set. Empty if nothing says it.
std::vector<std::string> class_names(const Config& config, const std::filesystem::path& beside);

/// The text of a config.json with these names for the first classes.
std::string with_class_names(const std::string& text, const std::vector<std::string>& names);

}  // namespace cleave::train
