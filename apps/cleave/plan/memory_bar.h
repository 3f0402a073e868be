#pragma once

#include <algorithm>
#include <cmath>
#include <string>

#include <fmt/format.h>

namespace cleave::app {

/// "[#########.....................] 31 %".
inline std::string memory_bar(double share) {
  constexpr int kWidth = 30;
  const int filled = static_cast<int>(std::lround(std::clamp(share, 0.0, 1.0) * kWidth));
  return fmt::format("[{:#>{}}{:.>{}}] {:.0f} %", "", filled, "", kWidth - filled, 100 * share);
}

}  // namespace cleave::app
