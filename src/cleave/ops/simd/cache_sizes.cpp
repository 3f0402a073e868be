#include "cleave/ops/simd/cache_sizes.h"

#include <fstream>
#include <string>

#include <unistd.h>

namespace cleave::ops {
namespace {

/// "512K" of the first processor, as Linux tells it; 0 if it does not. C libraries know the caches
/// of x86 alone.
std::int64_t from_sysfs(int level) {
  const std::string cache =
      "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(level) + "/size";
  std::ifstream file(cache);
  std::int64_t count = 0;
  char unit = 0;
  if (!(file >> count)) return 0;
  file >> unit;
  return unit == 'K' ? count << 10 : unit == 'M' ? count << 20 : count;
}

std::int64_t size_of_level(int level, int name, std::int64_t otherwise) {
  const long known = sysconf(name);
  if (known > 0) return known;
  const std::int64_t told = from_sysfs(level);
  return told > 0 ? told : otherwise;
}

}  // namespace

const CacheSizes& cache_sizes() {
  static const CacheSizes sizes{size_of_level(2, _SC_LEVEL2_CACHE_SIZE, std::int64_t{512} << 10),
                                size_of_level(3, _SC_LEVEL3_CACHE_SIZE, std::int64_t{8} << 20)};
  return sizes;
}

}  // namespace cleave::ops
