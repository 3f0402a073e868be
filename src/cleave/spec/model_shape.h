#pragma once

#include <cstdint>
#include <string_view>

namespace cleave {

/// The architectures that `model` can build.
enum class ModelKind : std::uint8_t { Gpt, Llama };

constexpr std::string_view to_string(ModelKind kind) {
  return kind == ModelKind::Gpt ? "gpt" : "llama";
}

/// Everything that decides a transformer's parameters and arithmetic; no batch, no layout.
struct ModelShape {
  ModelKind kind = ModelKind::Gpt;
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;  ///< fewer than heads: grouped-query attention
  std::int64_t ffn = 0;       ///< width inside the feed-forward part
  std::int64_t vocab = 0;
  std::int64_t context = 0;  ///< longest sequence; with gpt also the rows of the position table
  bool tie_embeddings = true;
  double norm_eps = 1e-5;
  double rope_theta = 10000;  ///< llama only

  std::int64_t head_size() const { return hidden / heads; }

  friend bool operator==(const ModelShape&, const ModelShape&) = default;
};

/// 4·hidden for gpt; ⌈8·hidden/3⌉ rounded up to a multiple of 64 for llama.
std::int64_t default_ffn(ModelKind kind, std::int64_t hidden);

/// Throws UserError, naming the value, the rule and the remedy, if no model has this shape.
void check(const ModelShape& shape);

}  // namespace cleave
