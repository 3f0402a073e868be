#pragma once

#include <cstdint>

#include "cleave/ops/compute.h"
#include "cleave/tensor/view.h"

namespace cleave::ops {

enum class Rotation : std::uint8_t { Forward, Backward };

/// cos[p, i] and sin[p, i] of p · theta^(-2i/d), computed in f64.
///
///   cos, sin  f32 [positions, d/2], dense
void fill_rope_tables(double theta, View cos, View sin);

/// Rotates the pairs (x[i], x[i + d/2]) of each head by the angle of its position: the
/// "rotate_half" convention of Hugging Face's Llama. Backward rotates back, which is both the
/// inverse and the gradient.
struct RopeArgs {
  View x;                           // [tokens, heads, d], rows of d contiguous; in place
  ConstView cos;                    // f32 [positions, d/2], dense
  ConstView sin;                    // likewise
  std::int64_t sequence = 1;        // the position of token t is first_position + t % sequence
  std::int64_t first_position = 0;  // more than 0 only when generating
  Rotation rotation = Rotation::Forward;
};
void rope(Compute& compute, const RopeArgs& args);

}  // namespace cleave::ops
