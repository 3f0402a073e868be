#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace cleave {

/// A checksum of a tensor that any number of writers can make together: the sums of its slices add
/// up (modulo 2^64) to the sum of the whole, however it was cut.
///
///   sum = Σ mix(i, bits of element i)
///
/// `mix` scatters index and bits over 64 bits (the finaliser of SplitMix64), so a flipped bit, two
/// exchanged elements or a missing one go unnoticed once in 2^64.
///
/// `elements` are 4 bytes each, in any format; the first of them is element `first` of the tensor.
std::uint64_t tensor_sum(std::span<const std::byte> elements, std::int64_t first);

}  // namespace cleave
