#pragma once

#include <cstddef>
#include <span>

namespace cleave {

/// Adds `bytes` to a state of XXH3 with wider vectors than those the build may count on, if there
/// are such and this processor has them; false if not. The hash is the same.
bool add_with_wide_vectors(void* xxh3, std::span<const std::byte> bytes);

/// The same for processors that are known to have AVX2.
void add_with_avx2(void* xxh3, const void* bytes, std::size_t size);

}  // namespace cleave
