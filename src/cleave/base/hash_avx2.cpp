// Compiled with -mavx2, and so without anything that another file may share: the linker would be
// free to take this file's copy of it for all.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "cleave/base/hash_wide.h"

namespace cleave {

void add_with_avx2(void* xxh3, const void* bytes, std::size_t size) {
  XXH3_64bits_update(static_cast<XXH3_state_t*>(xxh3), bytes, size);
}

}  // namespace cleave
