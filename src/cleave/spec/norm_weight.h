#pragma once

#include <cstdint>

namespace cleave {

/// What a root-mean-square norm multiplies by: its weight, or one more than that (Gemma).
enum class NormWeight : std::uint8_t { Plain, OnePlus };

}  // namespace cleave
