#pragma once

#include <string_view>

namespace cleave {

/// "0.1.0": the project's version, stated once, in CMakeLists.txt.
std::string_view version();

}  // namespace cleave
