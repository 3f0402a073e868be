#pragma once

#include <cstdint>

namespace cleave {

/// What malloc has handed out and not got back, in bytes, over all threads of this process. 0 where
/// the C library does not tell.
std::int64_t heap_bytes();

/// The most memory that this process ever had in RAM, its program and libraries included.
std::int64_t peak_resident_bytes();

}  // namespace cleave
