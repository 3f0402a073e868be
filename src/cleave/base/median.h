#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "cleave/base/check.h"

namespace cleave {

/// The upper one of the two middle values where there are two. `values` must not be empty.
inline double median(std::vector<double> values) {
  CLEAVE_CHECK(!values.empty(), "a median of nothing");
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace cleave
