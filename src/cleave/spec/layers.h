#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cleave/spec/layer_spec.h"

namespace cleave::spec {

/// What flows through the layers: `tokens` rows of one microbatch in one format.
struct Flow {
  std::int64_t sequences = 1;
  std::int64_t sequence = 1;
  DType dtype = DType::F32;
  /// Generating: `sequence` new tokens follow up to `cache - sequence` earlier ones, whose keys and
  /// values are kept. There is then no backward. 0: training.
  std::int64_t cache = 0;
  std::int64_t images = 1;  ///< most images of a sequence, for models that read both
  /// Images that all sequences have together where these are fewer; 0: as many as there may be.
  std::int64_t present_images = 0;
  bool documents = false;  ///< tokens see those of their own document alone
  std::int64_t step = 0;   ///< sequences of a whole step, for losses over it; 0: the microbatch's

  std::int64_t tokens() const { return sequences * sequence; }
  std::int64_t all_images() const {
    return present_images > 0 ? present_images : sequences * images;
  }
  std::int64_t samples_of_step() const { return step == 0 ? sequences : step; }
};

/// One matrix [in, out] (or [out, in] if transposed) with an optional bias [out].
struct LinearShape {
  std::int64_t in = 0;
  std::int64_t out = 0;
  Transpose weight = Transpose::No;
  Bias bias = Bias::None;
  float deviation = 0.02f;              ///< of the initial weights
  std::vector<Piece> pieces = {};       ///< of the weight; empty: it is one whole tensor
  std::vector<Piece> bias_pieces = {};  ///< likewise
  CutRule rule = CutRule::Whole;        ///< Column, Row or Whole
  std::vector<CutSpan> spans = {};      ///< of the features that the rule cuts
};

// One function per kind of layer; the class of the same name in `layers` computes it.
// x and y are [tokens, features] unless said otherwise.

/// kind "layernorm": parameters weight, bias [features].
LayerSpec layernorm(const std::string& name, const Flow& flow, std::int64_t features,
                    float epsilon);

/// kind "rmsnorm": parameter weight [features].
LayerSpec rmsnorm(const std::string& name, const Flow& flow, std::int64_t features, float epsilon,
                  NormWeight form = NormWeight::Plain);

/// kind "linear": y = x · w + bias.
LayerSpec linear(const std::string& name, const Flow& flow, const LinearShape& shape);

/// kind "qknorm": x and y [tokens, (heads + 2·kv_heads)·head_dim] hold q, k, v. Root-mean-square
/// norms of q and k, with a weight for each; v stays.
struct QkNormShape {
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  bool per_head = true;  ///< false: all heads of q are one row, and all heads of k another
  float epsilon = 1e-6f;
  NormWeight form = NormWeight::Plain;
  std::string q_name = {};  ///< of the weights' parameters
  std::string k_name = {};
};
LayerSpec qknorm(const std::string& name, const Flow& flow, const QkNormShape& shape);

/// kind "attention": x [tokens, (heads + 2·kv_heads)·head_dim] holds q, k, v; y [tokens,
/// heads·head_dim]. With rotary positions F turns q and k in place. Where documents are kept apart
/// it reads, at the port kDocuments, i32 [tokens]: the position at which each token's begins.
inline constexpr const char* kDocuments = "documents";
LayerSpec attention(const std::string& name, const Flow& flow,
                    const AttentionAttributes& attributes);

/// kind "gelu": the tanh form.
LayerSpec gelu(const std::string& name, const Flow& flow, std::int64_t features);

/// kind "swiglu": x [tokens, 2·features] (gate, then up) -> y [tokens, features].
LayerSpec swiglu(const std::string& name, const Flow& flow, std::int64_t features);

/// kind "geglu": likewise, with gelu in its tanh form instead of silu.
LayerSpec geglu(const std::string& name, const Flow& flow, std::int64_t features);

/// kind "residual": y = x + the x of layer `skip` of the segment.
LayerSpec residual(const std::string& name, const Flow& flow, std::int64_t features, int skip);

/// kind "embedding": x i32 [tokens] -> y [tokens, features]; `context` > 0 adds learned positions.
struct EmbeddingShape {
  std::int64_t vocabulary = 0;
  std::int64_t features = 0;
  std::int64_t context = 0;
  float scale = 1;                 ///< of the token table's rows
  std::int64_t still = -1;         ///< an entry that learns nothing by being read; -1: none
  std::string token_name = {};     ///< of the token table's parameter
  std::string position_name = {};  ///< of the position table's parameter
};
LayerSpec embedding(const std::string& name, const Flow& flow, const EmbeddingShape& shape);

/// kind "loss": x [tokens, features] -> y f32 [tokens], the cross-entropy of x · wᵀ against what is
/// read at port "targets", i32 [tokens].
struct LossShape {
  std::int64_t vocabulary = 0;
  std::int64_t features = 0;
  std::int64_t blocks = 1;
  std::string weight_name = {};  ///< weight [vocabulary, features]
  std::string tied_to = {};      ///< empty: the head has a weight of its own
};
LayerSpec loss(const std::string& name, const Flow& flow, const LossShape& shape);

}  // namespace cleave::spec
