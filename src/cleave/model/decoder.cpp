#include "cleave/model/decoder.h"

#include <cmath>
#include <string>
#include <utility>

#include "cleave/base/check.h"
#include "cleave/model/language_model.h"
#include "cleave/model/rope_scaling.h"

namespace cleave::model {
namespace {

using spec::Flow;

/// Tensors of their own, one below the other in one product.
struct FusedRows {
  std::string fused;  ///< what checkpoints call the whole; empty: they have the parts
  std::int64_t rows = 0;
  std::vector<Piece> weights;
  std::vector<Piece> biases;
  std::vector<CutSpan> spans;

  void add(const std::string& tensor, const CutSpan& span) {
    const std::int64_t extent = span.units * span.width;
    if (fused.empty()) {
      weights.push_back({.name = tensor + ".weight", .first = rows, .extent = extent});
      biases.push_back({.name = tensor + ".bias", .first = rows, .extent = extent});
    }
    spans.push_back(span);
    rows += extent;
  }

  spec::LinearShape shape(std::int64_t in, bool bias) const {
    return {.in = in,
            .out = rows,
            .weight = Transpose::Yes,
            .bias = bias ? Bias::Add : Bias::None,
            .pieces = weights,
            .bias_pieces = biases,
            .rule = CutRule::Column,
            .spans = spans};
  }
};

/// The layers of one block, one after another.
class Block {
 public:
  Block(const ModelShape& shape, const DecoderStyle& style, const Flow& flow, std::int64_t index)
      : s_(shape),
        style_(style),
        flow_(flow),
        index_(index),
        name_("model.layers." + std::to_string(index) + ".") {}

  SegmentSpec made() && {
    const bool before = style_.norms != DecoderStyle::Norms::After;
    const bool after = style_.norms != DecoderStyle::Norms::Before;
    const bool around = before && after;
    const int attention = next();
    if (before) norm("input_layernorm");
    add_attention();
    if (after) norm("post_attention_layernorm");
    add(spec::residual(name_ + "self_attn.residual", flow_, s_.hidden, attention));
    const int feed_forward = next();
    if (before) norm(around ? "pre_feedforward_layernorm" : "post_attention_layernorm");
    add_feed_forward();
    if (after) norm("post_feedforward_layernorm");
    add(spec::residual(name_ + "mlp.residual", flow_, s_.hidden, feed_forward));
    return {.name = "block " + std::to_string(index_), .layers = std::move(layers_), .block = true};
  }

 private:
  int next() const { return static_cast<int>(layers_.size()); }
  void add(LayerSpec layer) { layers_.push_back(std::move(layer)); }
  void norm(const std::string& name) {
    add(spec::rmsnorm(name_ + name, flow_, s_.hidden, static_cast<float>(s_.norm_eps),
                      style_.norm_weight));
  }

  CutSpan heads() const {
    return {.units = s_.heads, .width = s_.head_size(), .what = "model.heads"};
  }
  std::int64_t rotary_dim() const { return s_.rotary_dim > 0 ? s_.rotary_dim : s_.head_size(); }
  CutSpan ffn() const { return {.units = s_.ffn, .what = "model.ffn"}; }

  spec::LinearShape back(const CutSpan& wide, bool bias) const {
    return {.in = wide.units * wide.width,
            .out = s_.hidden,
            .weight = Transpose::Yes,
            .bias = bias ? Bias::Add : Bias::None,
            .rule = CutRule::Row,
            .spans = {wide}};
  }

  Rope rope() const {
    if (!s_.has_rope(index_)) return {};
    if (!style_.local_rope || !s_.has_window(index_))
      return scaled_rope(s_.rope_theta, rotary_dim(), s_.rope_scaling);
    Rope local = scaled_rope(s_.local_rope_theta, rotary_dim(), {});
    local.tables = "local rope";
    return local;
  }

  AttentionAttributes attention() const {
    const bool windowed = s_.has_window(index_);
    return {.shape = {.sequences = flow_.sequences,
                      .sequence = flow_.sequence,
                      .heads = s_.heads,
                      .kv_heads = s_.kv_heads,
                      .head_dim = s_.head_size(),
                      .mask = windowed ? AttentionMask::Window : AttentionMask::Causal,
                      .window = windowed ? s_.window : 0,
                      .scale = static_cast<float>(s_.attention_scale),
                      .documents = flow_.documents},
            .rope = rope(),
            .cache = flow_.cache};
  }

  void add_attention() {
    const CutSpan kv_heads{
        .units = s_.kv_heads, .width = s_.head_size(), .shareable = true, .what = "model.kv_heads"};
    const std::string name = name_ + "self_attn.";
    FusedRows qkv{.fused = style_.fused_tensors ? name + "qkv_proj" : ""};
    qkv.add(name + "q_proj", heads());
    qkv.add(name + "k_proj", kv_heads);
    qkv.add(name + "v_proj", kv_heads);
    add(spec::linear(name + "qkv_proj", flow_, qkv.shape(s_.hidden, style_.qkv_bias)));
    const AttentionAttributes attributes = attention();
    if (style_.qk_norm != DecoderStyle::QkNorm::None) {
      add(spec::qknorm(name + "qk_norm", flow_,
                       {.heads = s_.heads,
                        .kv_heads = s_.kv_heads,
                        .head_dim = s_.head_size(),
                        .per_head = style_.qk_norm == DecoderStyle::QkNorm::Heads,
                        .epsilon = static_cast<float>(s_.norm_eps),
                        .form = style_.norm_weight,
                        .q_name = name + "q_norm.weight",
                        .k_name = name + "k_norm.weight"}));
    }
    add(spec::attention(name_ + "self_attn", flow_, attributes));
    add(spec::linear(name + "o_proj", flow_, back(heads(), style_.out_bias)));
  }

  void add_feed_forward() {
    const std::string name = name_ + "mlp.";
    FusedRows gate_up{.fused = style_.fused_tensors ? name + "gate_up_proj" : ""};
    gate_up.add(name + "gate_proj", ffn());
    gate_up.add(name + "up_proj", ffn());
    add(spec::linear(name + "gate_up_proj", flow_, gate_up.shape(s_.hidden, s_.mlp_bias)));
    const bool silu = style_.gate == DecoderStyle::Gate::Silu;
    add((silu ? spec::swiglu : spec::geglu)(name + "act", flow_, s_.ffn));
    add(spec::linear(name + "down_proj", flow_, back(ffn(), s_.mlp_bias)));
  }

  const ModelShape& s_;
  const DecoderStyle& style_;
  const Flow& flow_;
  std::int64_t index_;
  std::string name_;
  std::vector<LayerSpec> layers_;
};

}  // namespace

Graph decoder(const ModelShape& shape, const DecoderStyle& style, const Flow& flow,
              std::int64_t loss_blocks) {
  std::vector<SegmentSpec> blocks;
  for (std::int64_t i = 0; i < shape.layers; ++i)
    blocks.push_back(Block(shape, style, flow, i).made());
  return language_model(
      shape, flow, loss_blocks,
      {.tokens = "model.embed_tokens.weight",
       .token_scale = style.scaled_embedding ? std::sqrt(static_cast<float>(shape.hidden)) : 1},
      std::move(blocks),
      spec::rmsnorm("model.norm", flow, shape.hidden, static_cast<float>(shape.norm_eps),
                    style.norm_weight));
}

void check_decoder(const ModelShape& s) {
  require(s.head_size() % 2 == 0, "a head of ", s.head_size(),
          s.head_dim > 0 ? " (model.head_dim)" : " (model.hidden / model.heads)",
          " is odd, but rotary positions turn pairs; change ",
          s.head_dim > 0 ? "model.head_dim" : "model.heads");
}

std::int64_t gated_ffn(std::int64_t hidden) {
  const std::int64_t exact = (8 * hidden + 2) / 3;
  return (exact + 63) / 64 * 64;
}

}  // namespace cleave::model
