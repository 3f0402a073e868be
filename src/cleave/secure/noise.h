#pragma once

#include <cstdint>
#include <span>

#include "cleave/secure/secret.h"

namespace cleave::secure {

/// Independent standard normal numbers `first`, `first` + 1, … of `key`: whoever does not have it
/// cannot tell them, and asking twice gives the same ones.
void fill_noise(const Bytes32& key, std::uint64_t first, std::span<double> numbers);

}  // namespace cleave::secure
