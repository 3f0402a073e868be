#pragma once

#include <string_view>

namespace cleave::app {

/// The commit that this program was built from, with "-dirty" if files differed; "unknown" without
/// a repository.
std::string_view commit();

}  // namespace cleave::app
