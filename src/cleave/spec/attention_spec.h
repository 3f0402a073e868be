#pragma once

#include <cstdint>
#include <vector>

#include "cleave/spec/matmul_spec.h"

namespace cleave {

/// Which keys of its sequence a query sees.
enum class AttentionMask : std::uint8_t {
  Causal,  ///< those up to its own position
  Full,    ///< all of them
  Window,  ///< the last AttentionShape::window of those up to its own position
};

/// The keys [first, end) of a sequence.
struct KeyRange {
  std::int64_t first = 0;
  std::int64_t end = 0;

  std::int64_t count() const { return end - first; }
};

/// Attention with grouped heads: `heads` query heads share `kv_heads` key-value heads, each of
/// which serves heads / kv_heads neighbouring query heads. Layers, ops and their reference twins
/// all read here what a query sees and how its scores are made.
struct AttentionShape {
  std::int64_t sequences = 0;
  std::int64_t sequence = 0;  ///< tokens of each
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim =
      0;  ///< of q, k and v alike; heads · head_dim need not be the model's width
  AttentionMask mask = AttentionMask::Causal;
  std::int64_t window = 0;  ///< keys that a query sees at most; with AttentionMask::Window alone
  float scale = 0;          ///< of the products of q and k; 0: 1/√head_dim
  float cap = 0;            ///< a score s becomes cap · tanh(s / cap); 0: it stays what it is
  bool documents = false;   ///< sequences hold several documents, and a query sees its own alone

  std::int64_t tokens() const { return sequences * sequence; }
  std::int64_t group() const { return heads / kv_heads; }

  /// What products of q and k are multiplied by.
  float score_scale() const;

  /// The keys that the query at `position` sees, of a sequence with `length` tokens.
  KeyRange seen_from(std::int64_t position, std::int64_t length) const;

  /// The same in a whole sequence. `begins` [sequence] has the position at which the document of
  /// each token begins, and never falls; null: the sequence is one document.
  KeyRange seen_from(std::int64_t position, const std::int32_t* begins = nullptr) const;

  /// The keys that the queries [first, first + rows) are multiplied with: all that any of them
  /// sees, from a multiple of kAttentionBlock on.
  KeyRange keys_of_block(std::int64_t first, std::int64_t rows,
                         const std::int32_t* begins = nullptr) const;

  friend bool operator==(const AttentionShape&, const AttentionShape&) = default;
};

/// Throws UserError unless the mask, the scale and the cap make sense together.
void check(const AttentionShape& shape);

enum class AttentionPass : std::uint8_t { Forward, Backward };

/// Queries are taken in blocks of this many rows. Blocks of as many keys that are masked for a
/// whole block of queries are skipped; sums over keys have as many slots, so that this changes no
/// bit.
inline constexpr std::int64_t kAttentionBlock = 64;

/// The products of one call, one entry per block of queries and product, batched over sequences and
/// heads. Backward computes the scores again, so it has five where forward has two.
std::vector<CountedMatmul> attention_matmuls(const AttentionShape& shape, DType dtype,
                                             AttentionPass pass);

}  // namespace cleave
