#pragma once

#include <cstdint>

namespace cleave::ops {

/// Bytes of a core's own second-level cache, and of the last level that cores share.
struct CacheSizes {
  std::int64_t second;
  std::int64_t last;
};

/// The caches of this machine, asked once; 512 KiB and 8 MiB where the system does not say.
const CacheSizes& cache_sizes();

}  // namespace cleave::ops
