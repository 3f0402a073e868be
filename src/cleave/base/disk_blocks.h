#pragma once

#include <cstdint>

namespace cleave {

/// What lies on a disk begins and ends on borders of this many bytes: what files are read and
/// written in past the system's own cache.
inline constexpr std::int64_t kDiskBlock = 4096;

/// `bytes` rounded up to the next multiple of kDiskBlock.
constexpr std::int64_t disk_blocks(std::int64_t bytes) {
  return (bytes + kDiskBlock - 1) / kDiskBlock * kDiskBlock;
}

}  // namespace cleave
