#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cleave/model/model_shape.h"
#include "cleave/spec/graph.h"
#include "cleave/spec/layers.h"

namespace cleave::model {

/// The parameters outside the blocks, with the names that Hugging Face gives them.
struct LanguageModelNames {
  std::string tokens;          ///< the table of token embeddings
  std::string positions = {};  ///< the table of positions; empty: the model has none
  float token_scale = 1;       ///< by which the rows of the token table are multiplied
};

/// The graph of a model that predicts the next token: an embedding, `blocks`, then `norm` and the
/// loss. Its inputs are "tokens" and "targets", i32, for each token the one that follows it.
/// Throws UserError if `flow` or `loss_blocks` do not fit the shape.
Graph language_model(const ModelShape& shape, const spec::Flow& flow, std::int64_t loss_blocks,
                     const LanguageModelNames& names, std::vector<SegmentSpec> blocks,
                     LayerSpec norm);

}  // namespace cleave::model
