#pragma once

#include <string>

namespace cleave::ops {

/// Highway's name of the best instruction set that was compiled in and that this processor has.
std::string simd_target();

}  // namespace cleave::ops
