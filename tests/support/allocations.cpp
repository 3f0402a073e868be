#include "support/allocations.h"

#include <cstdlib>
#include <new>

// Apart from what it counts: where both are inlined into one function, g++ takes malloc and delete
// for a mismatch.
namespace {
thread_local std::int64_t count = 0;
}

std::int64_t cleave::testing::allocations() {
  return count;
}

void* operator new(std::size_t size) {
  ++count;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}

void operator delete(void* memory) noexcept {
  std::free(memory);
}

void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
