#include "cleave/spec/block_spec.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <utility>

#include "cleave/spec/sharded.h"

namespace cleave::spec {
namespace {

/// Projections back into the residual stream begin smaller, so that its variance does not grow with
/// depth (Radford et al. 2019).
float residual_deviation(const ModelShape& shape) {
  return static_cast<float>(0.02 / std::sqrt(2.0 * static_cast<double>(shape.layers)));
}

/// The first device of the share owns the parameters; the others have copies.
void mark_copies(LayerSpec& layer, const TensorShare& share) {
  for (ParameterSpec& parameter : layer.parameters) {
    for (Piece& piece : parameter.pieces) piece.copy = share.rank > 0;
  }
}

/// The residual stream as the device holds it.
Flow own_rows(const Flow& flow, const TensorShare& share) {
  Flow rows = flow;
  if (share.divides_tokens()) {
    rows.sequences = 1;
    rows.sequence = share.own_tokens(flow.tokens());
  }
  return rows;
}

/// One of `of` equal parts of every layer; 0 of 1 is all of it.
struct Part {
  int index = 0;
  int of = 1;

  std::int64_t size(std::int64_t whole) const { return whole / of; }
  std::string name(const std::string& layer, int local) const {
    return of == 1 ? layer : shard_name(layer, local);
  }
};

/// Makes the layers of one block; the same code for all of it and for a shard.
class Block {
 public:
  Block(const ModelShape& shape, const Flow& flow, const TensorShare& share, std::string prefix)
      : s_(shape), flow_(flow), share_(share), prefix_(std::move(prefix)) {}

  std::vector<LayerSpec> layers() {
    const bool gpt = s_.kind == ModelKind::Gpt;
    add_part(gpt ? "ln_1" : "input_layernorm", gpt ? "attn" : "self_attn",
             gpt ? "attn.c_proj" : "self_attn.o_proj",
             [&](const Part& part, int local) { return attention_chain(part, local); });
    add_part(gpt ? "ln_2" : "post_attention_layernorm", "mlp", gpt ? "mlp.c_proj" : "mlp.down_proj",
             [&](const Part& part, int local) { return mlp_chain(part, local); });
    return std::move(layers_);
  }

 private:
  using Chain = std::function<std::vector<LayerSpec>(const Part&, int)>;

  /// norm, the chain (or the shards' chains and their sum), residual.
  void add_part(const std::string& norm, const std::string& name, const std::string& projection,
                const Chain& chain) {
    const int begin = static_cast<int>(layers_.size());
    layers_.push_back(residual_norm(s_, flow_, share_, prefix_ + norm));
    if (share_.whole()) {
      std::ranges::move(chain({}, 0), std::back_inserter(layers_));
    } else {
      ShardedShape shape;
      for (int k = 0; k < share_.local(); ++k) {
        shape.chains.push_back(chain({share_.first() + k, share_.shards}, k));
      }
      if (name != "mlp") shape.shared = shared_columns();
      if (s_.kind == ModelKind::Gpt) {
        shape.after = AfterSum::Bias;
        shape.added = bias(prefix_ + projection);
      }
      layers_.push_back(sharded(prefix_ + name, flow_, share_, std::move(shape)));
    }
    layers_.push_back(
        residual(prefix_ + name + ".residual", own_rows(flow_, share_), s_.hidden, begin));
  }

  std::int64_t kv_heads(const Part& part) const {
    return std::max<std::int64_t>(1, part.size(s_.kv_heads));
  }

  /// Keys and values, where there are fewer heads of them than shards.
  SharedColumns shared_columns() const {
    if (s_.kv_heads >= share_.shards) return {};
    const std::int64_t heads = s_.heads / share_.shards;
    return {.first = heads * s_.head_size(),
            .columns = 2 * s_.head_size(),
            .shards = static_cast<int>(share_.shards / s_.kv_heads)};
  }

  ParameterSpec bias(const std::string& layer) const {
    const std::string name = layer + ".bias";
    return {.name = name,
            .shape = {s_.hidden},
            .pieces = {{.name = name, .extent = s_.hidden, .copy = share_.rank > 0}}};
  }

  /// x -> [q, k, v] -> attention -> back to the residual stream.
  std::vector<LayerSpec> attention_chain(const Part& part, int local) const {
    const std::int64_t size = s_.head_size();
    const std::int64_t q = part.size(s_.heads) * size;
    const std::int64_t kv = kv_heads(part) * size;
    const bool gpt = s_.kind == ModelKind::Gpt;
    const std::string name = prefix_ + (gpt ? "attn" : "self_attn");
    const AttentionAttributes attributes{.shape = {.sequences = flow_.sequences,
                                                   .sequence = flow_.sequence,
                                                   .heads = part.size(s_.heads),
                                                   .kv_heads = kv_heads(part),
                                                   .head_dim = size},
                                         .rope_theta = gpt ? 0 : static_cast<float>(s_.rope_theta),
                                         .cache = flow_.cache};
    return {linear(part.name(name + (gpt ? ".c_attn" : ".qkv_proj"), local), flow_,
                   gpt ? fused_columns(part, name + ".c_attn", q)
                       : fused_rows(q + 2 * kv, {query(part, name + ".q_proj.weight"),
                                                 key(part, name + ".k_proj.weight", q),
                                                 key(part, name + ".v_proj.weight", q + kv)})),
            attention(part.name(name, local), flow_, attributes),
            linear(part.name(name + (gpt ? ".c_proj" : ".o_proj"), local), flow_,
                   back(part, name + (gpt ? ".c_proj" : ".o_proj"), s_.heads * size))};
  }

  /// x -> wide -> activation -> back to the residual stream.
  std::vector<LayerSpec> mlp_chain(const Part& part, int local) const {
    const std::int64_t wide = part.size(s_.ffn);
    const std::string name = prefix_ + "mlp";
    if (s_.kind == ModelKind::Gpt) {
      LinearShape up{.in = s_.hidden, .out = wide, .bias = Bias::Add};
      if (part.of > 1) {
        up.pieces = {slice(part, name + ".c_fc.weight", 1, s_.ffn)};
        up.bias_pieces = {slice(part, name + ".c_fc.bias", 0, s_.ffn)};
      }
      return {
          linear(part.name(name + ".c_fc", local), flow_, up),
          gelu(part.name(name + ".act", local), flow_, wide),
          linear(part.name(name + ".c_proj", local), flow_, back(part, name + ".c_proj", s_.ffn))};
    }
    Piece gate = slice(part, name + ".gate_proj.weight", 0, s_.ffn);
    Piece up = slice(part, name + ".up_proj.weight", 0, s_.ffn);
    up.first = wide;
    return {
        linear(part.name(name + ".gate_up_proj", local), flow_, fused_rows(2 * wide, {gate, up})),
        swiglu(part.name(name + ".act", local), flow_, wide),
        linear(part.name(name + ".down_proj", local), flow_,
               back(part, name + ".down_proj", s_.ffn))};
  }

  /// The part's share of dim `dim` of a tensor, as all of a parameter.
  static Piece slice(const Part& part, std::string tensor, int dim, std::int64_t whole) {
    return {.name = std::move(tensor),
            .extent = part.size(whole),
            .dim = dim,
            .start = part.index * part.size(whole),
            .whole = whole};
  }

  Piece query(const Part& part, std::string tensor) const {
    return slice(part, std::move(tensor), 0, s_.heads * s_.head_size());
  }

  /// Keys or values, from row `first` of the fused weight. Of the shards that share a head the
  /// first one owns it.
  Piece key(const Part& part, std::string tensor, std::int64_t first) const {
    const std::int64_t head = part.index * s_.kv_heads / part.of;
    const std::int64_t sharers = std::max<std::int64_t>(1, part.of / s_.kv_heads);
    return {.name = std::move(tensor),
            .first = first,
            .extent = kv_heads(part) * s_.head_size(),
            .start = head * s_.head_size(),
            .whole = s_.kv_heads * s_.head_size(),
            .copy = part.index % sharers != 0};
  }

  /// GPT's q, k and v: columns of one tensor, `size` of each.
  LinearShape fused_columns(const Part& part, const std::string& tensor, std::int64_t size) const {
    LinearShape shape{.in = s_.hidden, .out = 3 * size, .bias = Bias::Add};
    if (part.of == 1) return shape;
    for (int i = 0; i < 3; ++i) {
      Piece piece{.name = tensor + ".weight",
                  .first = i * size,
                  .extent = size,
                  .dim = 1,
                  .start = i * s_.hidden + part.index * size,
                  .whole = 3 * s_.hidden};
      shape.pieces.push_back(piece);
      piece.name = tensor + ".bias";
      piece.dim = 0;
      shape.bias_pieces.push_back(piece);
    }
    return shape;
  }

  /// Llama's fused weights: tensors of their own, one below the other.
  LinearShape fused_rows(std::int64_t out, std::vector<Piece> pieces) const {
    return {.in = s_.hidden, .out = out, .weight = Transpose::Yes, .pieces = std::move(pieces)};
  }

  /// From `wide` features back to the residual stream; the bias of all shards is added once.
  LinearShape back(const Part& part, const std::string& tensor, std::int64_t wide) const {
    const bool gpt = s_.kind == ModelKind::Gpt;
    LinearShape shape{.in = part.size(wide), .out = s_.hidden};
    shape.weight = gpt ? Transpose::No : Transpose::Yes;
    if (gpt) shape.deviation = residual_deviation(s_);
    if (gpt && part.of == 1) shape.bias = Bias::Add;
    if (part.of > 1) shape.pieces = {slice(part, tensor + ".weight", gpt ? 0 : 1, wide)};
    return shape;
  }

  const ModelShape& s_;
  const Flow& flow_;
  const TensorShare& share_;
  std::string prefix_;
  std::vector<LayerSpec> layers_;
};

}  // namespace

LayerSpec residual_norm(const ModelShape& shape, const Flow& flow, const TensorShare& share,
                        const std::string& name) {
  const float epsilon = static_cast<float>(shape.norm_eps);
  Flow rows = flow;
  if (!share.whole()) {
    rows.sequences = 1;
    rows.sequence = flow.tokens() / share.shards;
  }
  LayerSpec spec = shape.kind == ModelKind::Gpt ? layernorm(name, rows, shape.hidden, epsilon)
                                                : rmsnorm(name, rows, shape.hidden, epsilon);
  if (share.whole()) return spec;
  mark_copies(spec, share);
  return token_sliced(flow, share, std::move(spec));
}

LayerSpec model_embedding(const ModelShape& shape, const Flow& flow, const TensorShare& share,
                          const EmbeddingNames& names) {
  const std::int64_t context = names.positions.empty() ? 0 : shape.context;
  if (share.whole()) {
    return embedding("embedding", flow,
                     {.vocabulary = shape.vocab,
                      .features = shape.hidden,
                      .context = context,
                      .token_name = names.tokens,
                      .position_name = names.positions});
  }
  ShardedShape parts;
  for (int k = 0; k < share.local(); ++k) {
    const int shard = share.first() + k;
    const std::int64_t first = vocabulary_border(shape.vocab, share, shard);
    const std::int64_t entries = vocabulary_border(shape.vocab, share, shard + 1) - first;
    LayerSpec part = embedding(shard_name("embedding", k), flow,
                               {.vocabulary = entries,
                                .features = shape.hidden,
                                .token_name = shard_name(names.tokens, k)});
    part.attributes = EmbeddingAttributes{flow.sequence, first, shape.vocab};
    part.parameters[0].pieces = {
        {.name = names.tokens, .extent = entries, .start = first, .whole = shape.vocab}};
    parts.chains.push_back({std::move(part)});
  }
  if (context > 0) {
    parts.after = AfterSum::Positions;
    // As the whole layer has it.
    LayerSpec whole = embedding("", flow,
                                {.vocabulary = 1,
                                 .features = shape.hidden,
                                 .context = context,
                                 .position_name = names.positions});
    mark_copies(whole, share);
    parts.added = whole.parameters[1];
  }
  return sharded("embedding", flow, share, std::move(parts));
}

SegmentSpec block(const ModelShape& shape, const Flow& flow, const TensorShare& share,
                  std::int64_t index) {
  const std::string number = std::to_string(index);
  const std::string prefix = shape.kind == ModelKind::Gpt ? "transformer.h." : "model.layers.";
  return {"block " + number, Block(shape, flow, share, prefix + number + ".").layers()};
}

}  // namespace cleave::spec
