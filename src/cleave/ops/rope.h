#pragma once

#include <cstdint>
#include <span>

#include "cleave/ops/compute.h"
#include "cleave/tensor/view.h"

namespace cleave::ops {

enum class Rotation : std::uint8_t { Forward, Backward };

/// cos[p, i] and sin[p, i] of p · frequencies[i], times `magnitude`, computed in f64.
///
///   cos, sin  f32 [positions, pairs], dense
void fill_rope_tables(std::span<const double> frequencies, double magnitude, View cos, View sin);

/// Rotates the pairs (x[i], x[i + pairs]) of each head by the angle of its position: the
/// "rotate_half" convention of Hugging Face's Llama. Backward rotates back, which is the gradient,
/// and the inverse where the magnitude is 1. What lies beyond the pairs stays.
struct RopeArgs {
  View x;                           // [tokens, heads, d], rows of d contiguous; in place
  ConstView cos;                    // f32 [positions, pairs], dense; pairs ≤ d/2
  ConstView sin;                    // likewise
  std::int64_t sequence = 1;        // the position of token t is first_position + t % sequence
  std::int64_t first_position = 0;  // more than 0 only when generating
  Rotation rotation = Rotation::Forward;
};
void rope(Compute& compute, const RopeArgs& args);

}  // namespace cleave::ops
