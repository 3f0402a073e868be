#include "cleave/base/hash_wide.h"

namespace cleave {

bool add_with_wide_vectors(void* xxh3, std::span<const std::byte> bytes) {
  if (!__builtin_cpu_supports("avx2")) return false;
  add_with_avx2(xxh3, bytes.data(), bytes.size());
  return true;
}

}  // namespace cleave
