#include "cleave/edge/fixed_point.h"

#include <cmath>

namespace cleave::edge {

bool add_fixed(double value, std::uint64_t& sum) {
  if (!(std::fabs(value) <= kMostFixed)) return false;
  sum += static_cast<std::uint64_t>(static_cast<std::int64_t>(std::nearbyint(value / kFixedUnit)));
  return true;
}

double from_fixed(std::uint64_t sum) {
  return static_cast<double>(static_cast<std::int64_t>(sum)) * kFixedUnit;
}

}  // namespace cleave::edge
