#pragma once

#include <filesystem>
#include <set>
#include <string>

#include "cleave/train/config/config.h"

namespace cleave::train {

/// The model that the config.json of a Hugging Face directory describes. Throws UserError, naming
/// the key, on what cleave does not do.
ModelShape shape_in(const std::filesystem::path& directory);

/// Throws UserError for the first key of [model] with another value than the directory's model has.
void check_follows(const Config& config, const ModelShape& directory);

}  // namespace cleave::train
