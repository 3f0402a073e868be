#pragma once

#include <cstdint>

#include "cleave/model/model_shape.h"
#include "cleave/spec/graph.h"
#include "cleave/spec/layers.h"

namespace cleave::model {

/// In what the families that descend from Llama differ, beyond their shapes.
struct DecoderStyle {
  enum class QkNorm : std::uint8_t {
    None,
    Heads,  ///< every head of q and k by itself, with one weight for all
    Width,  ///< all heads of q together, and all of k
  };
  enum class Norms : std::uint8_t { Before, After, Around };  ///< attention and feed-forward part

  enum class Gate : std::uint8_t { Silu, Gelu };  ///< of the feed-forward part

  bool qkv_bias = false;
  bool out_bias = false;
  QkNorm qk_norm = QkNorm::None;
  Norms norms = Norms::Before;
  NormWeight norm_weight = NormWeight::Plain;
  Gate gate = Gate::Silu;
  bool scaled_embedding = false;  ///< the rows of the token table are multiplied by √hidden
  bool local_rope = false;  ///< layers with a window turn by local_rope_theta, without scaling
  bool fused_tensors =
      false;  ///< checkpoints have q, k and v in one tensor, gate and up in another
};

/// A causal language model of blocks with rotary attention and a gated feed-forward part, with the
/// names that Hugging Face gives its parameters.
Graph decoder(const ModelShape& shape, const DecoderStyle& style, const spec::Flow& flow,
              std::int64_t loss_blocks);

/// Throws UserError if no such model has the shape; what holds for all families is checked before.
void check_decoder(const ModelShape& shape);

/// ⌈8·hidden/3⌉ rounded up to a multiple of 64: the width of a gated feed-forward part with about
/// as many weights as a plain one of 4·hidden.
std::int64_t gated_ffn(std::int64_t hidden);

}  // namespace cleave::model
