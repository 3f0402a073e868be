#pragma once

#include <string>

#include "cleave/spec/gelu_form.h"
#include "cleave/spec/layers.h"

namespace cleave::model {

/// A block of a transformer with layernorms: by its mask it sees all rows, or those before.
struct EncoderShape {
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t ffn = 0;
  double norm_eps = 0;
  GeluForm gelu = GeluForm::Exact;
  AttentionMask mask = AttentionMask::Full;
  const char* heads_key = "";  ///< what configs call them, for errors
  const char* ffn_key = "";
};

/// What checkpoints call the tensors of a block, each with ".weight" and ".bias".
struct EncoderNames {
  std::string norm_before;
  std::string attention;  ///< of the layer
  std::string query;
  std::string key;
  std::string value;
  std::string out;
  std::string norm_after;
  std::string up;
  std::string act;  ///< of the layer
  std::string down;
};

/// Layernorm, attention, layernorm, two linear layers with a gelu between; biases everywhere.
SegmentSpec encoder_block(const EncoderShape& shape, const EncoderNames& names,
                          const spec::Flow& flow);

}  // namespace cleave::model
