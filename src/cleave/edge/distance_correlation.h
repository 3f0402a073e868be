#pragma once

#include <span>

namespace cleave::edge {

/// How far two lists of n things tell the same of each other: 1 if things that are apart in one
/// list are as far apart in the other, 0 on average if the lists have nothing to do with each
/// other. `a` and `b` are the distances of the things from each other, [n, n]; n ≥ 4. Without the
/// bias that lists of few things and many numbers have (Székely and Rizzo, 2013); what then comes
/// out below 0 is 0. A list of equal things tells nothing: 0.
double distance_correlation(std::span<const double> a, std::span<const double> b);

}  // namespace cleave::edge
