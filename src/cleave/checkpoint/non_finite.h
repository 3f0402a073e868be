#pragma once

#include <string>

#include "cleave/checkpoint/reader.h"

namespace cleave::checkpoint {

/// Why what a model computed is not finite, and what to do: the first tensor of its checkpoint that
/// holds a NaN or an infinite number, or that none does. Reads weights until it finds one.
std::string why_not_finite(const CheckpointReader& checkpoint);

}  // namespace cleave::checkpoint
