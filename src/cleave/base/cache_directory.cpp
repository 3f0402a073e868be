#include "cleave/base/cache_directory.h"

#include <cstdlib>

namespace cleave {

std::optional<std::filesystem::path> cache_directory() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache != '\0')
    return std::filesystem::path(cache) / "cleave";
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0')
    return std::filesystem::path(home) / ".cache" / "cleave";
  return std::nullopt;
}

}  // namespace cleave
