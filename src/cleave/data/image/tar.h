#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cleave/base/file.h"

namespace cleave::data {

/// A file inside of a tar.
struct TarEntry {
  std::string name;
  std::int64_t offset = 0;  ///< of its bytes in the tar
  std::int64_t bytes = 0;
};

/// The regular files of a tar (ustar, GNU or pax), in order. Throws UserError: no tar, cut short.
std::vector<TarEntry> tar_entries(const File& tar);

}  // namespace cleave::data
