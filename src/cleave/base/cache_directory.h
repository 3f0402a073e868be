#pragma once

#include <filesystem>
#include <optional>

namespace cleave {

/// Where the program keeps what it can make anew: $XDG_CACHE_HOME/cleave, or ~/.cache/cleave.
/// Nothing if the environment says neither.
std::optional<std::filesystem::path> cache_directory();

}  // namespace cleave
