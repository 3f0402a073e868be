#include "cleave/model/encoder.h"

#include "cleave/spec/image_layers.h"

namespace cleave::model {
namespace {

spec::LinearShape encoder_linear(std::int64_t in, std::int64_t out, CutRule rule,
                                 const CutSpan& span) {
  return {.in = in,
          .out = out,
          .weight = Transpose::Yes,
          .bias = Bias::Add,
          .rule = rule,
          .spans = {span}};
}

/// Query, key and value are tensors of their own, in one product.
spec::LinearShape encoder_qkv(std::int64_t hidden, const EncoderNames& names,
                              const CutSpan& heads) {
  spec::LinearShape shape = encoder_linear(hidden, 3 * hidden, CutRule::Column, heads);
  shape.spans = {heads, heads, heads};
  std::int64_t first = 0;
  for (const std::string* part : {&names.query, &names.key, &names.value}) {
    shape.pieces.push_back({.name = *part + ".weight", .first = first, .extent = hidden});
    shape.bias_pieces.push_back({.name = *part + ".bias", .first = first, .extent = hidden});
    first += hidden;
  }
  return shape;
}

}  // namespace

SegmentSpec encoder_block(const EncoderShape& s, const EncoderNames& names,
                          const spec::Flow& flow) {
  const float epsilon = static_cast<float>(s.norm_eps);
  const std::int64_t head_size = s.hidden / s.heads;
  const CutSpan heads{.units = s.heads, .width = head_size, .what = s.heads_key};
  const CutSpan ffn{.units = s.ffn, .what = s.ffn_key};
  const AttentionAttributes attributes{.shape = {.sequences = flow.sequences,
                                                 .sequence = flow.sequence,
                                                 .heads = s.heads,
                                                 .kv_heads = s.heads,
                                                 .head_dim = head_size,
                                                 .mask = s.mask}};
  return {
      .name = "",
      .layers =
          {spec::layernorm(names.norm_before, flow, s.hidden, epsilon),
           spec::linear(names.attention + ".attention", flow, encoder_qkv(s.hidden, names, heads)),
           spec::attention(names.attention, flow, attributes),
           spec::linear(names.out, flow, encoder_linear(s.hidden, s.hidden, CutRule::Row, heads)),
           spec::residual(names.attention + ".residual", flow, s.hidden, 0),
           spec::layernorm(names.norm_after, flow, s.hidden, epsilon),
           spec::linear(names.up, flow, encoder_linear(s.hidden, s.ffn, CutRule::Column, ffn)),
           spec::gelu(names.act, flow, s.ffn, s.gelu),
           spec::linear(names.down, flow, encoder_linear(s.ffn, s.hidden, CutRule::Row, ffn)),
           spec::residual(names.down + ".residual", flow, s.hidden, 5)},
      .block = true};
}

}  // namespace cleave::model
