#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cleave {

/// Rotary positions: in the head at `position`, the pair of elements (i, i + pairs) turns by the
/// angle position · frequencies[i]; elements beyond the pairs stay.
struct Rope {
  std::vector<double> frequencies = {};  ///< one for each pair; empty: nothing turns
  double magnitude = 1;                  ///< what has been turned is multiplied by this
  std::string tables = "rope";  ///< layers of a stage whose tables have one name share them

  friend bool operator==(const Rope&, const Rope&) = default;
};

/// theta^(-2i/dims) for each of the dims/2 pairs of a head. The same bits on every machine.
std::vector<double> rope_frequencies(double theta, std::int64_t dims);

}  // namespace cleave
