#pragma once

#include <cstdint>

namespace cleave::testing {

/// How often this thread has called operator new. Only in test programs that list
/// support/allocations.cpp among their sources.
std::int64_t allocations();

}  // namespace cleave::testing
