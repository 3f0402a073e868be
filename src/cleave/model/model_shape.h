#pragma once

#include <cstdint>

namespace cleave {

namespace model {
struct Family;
extern const Family gpt;
}  // namespace model

/// Everything that decides a model's parameters and arithmetic; no batch, no layout. What a family
/// does not have, it does not read.
struct ModelShape {
  const model::Family* kind = &model::gpt;
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;  ///< fewer than heads: grouped-query attention
  std::int64_t ffn = 0;       ///< width inside the feed-forward part
  std::int64_t vocab = 0;
  std::int64_t context = 0;  ///< longest sequence, and rows of a learned table of positions
  bool tie_embeddings = true;
  double norm_eps = 1e-5;
  double rope_theta = 10000;  ///< of rotary positions

  std::int64_t head_size() const { return hidden / heads; }

  friend bool operator==(const ModelShape&, const ModelShape&) = default;
};

/// Throws UserError, naming the value, the rule and the remedy, if no model has this shape.
void check(const ModelShape& shape);

}  // namespace cleave
