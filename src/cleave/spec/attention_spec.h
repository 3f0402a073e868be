#pragma once

#include <cstdint>
#include <vector>

#include "cleave/spec/matmul_spec.h"

namespace cleave {

/// Causal attention with grouped heads: `heads` query heads share `kv_heads` key-value heads, each
/// of which serves heads / kv_heads neighbouring query heads.
struct AttentionShape {
  std::int64_t sequences = 0;
  std::int64_t sequence = 0;  ///< tokens of each
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;

  std::int64_t tokens() const { return sequences * sequence; }
  std::int64_t group() const { return heads / kv_heads; }

  friend bool operator==(const AttentionShape&, const AttentionShape&) = default;
};

enum class AttentionPass : std::uint8_t { Forward, Backward };

/// Queries are taken in blocks of this many rows. The rows [r, r + block) see the keys [0, r +
/// block): blocks of keys beyond that are masked as a whole and skipped, the last one in part.
inline constexpr std::int64_t kAttentionBlock = 64;

/// The products of one call, one entry per block of queries and product, batched over sequences and
/// heads. Backward computes the scores again, so it has five where forward has two.
std::vector<CountedMatmul> attention_matmuls(const AttentionShape& shape, DType dtype,
                                             AttentionPass pass);

}  // namespace cleave
