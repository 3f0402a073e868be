#pragma once

#include <cstdint>
#include <span>

namespace cleave::edge {

/// Numbers as multiples of 2^-32, modulo 2^64: sums have the same bits in any order, an addend can
/// be taken out again, and a mask that is added to one client's and taken from another's is gone
/// from the sum.
inline constexpr double kFixedUnit = 0x1p-32;

/// What one client's number may be at most, so that 65,536 of them add up without running over.
inline constexpr double kMostFixed = 0x1p14;

/// The nearest multiple, ties to even; a number that is not finite, or beyond kMostFixed, gives
/// false and leaves `sum` as it was.
bool add_fixed(double value, std::uint64_t& sum);

/// The number that a sum stands for.
double from_fixed(std::uint64_t sum);

}  // namespace cleave::edge
