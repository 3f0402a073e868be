#include "cleave/spec/model_spec.h"

#include <cmath>

#include "cleave/base/check.h"

namespace cleave {
namespace {

using spec::Flow;

/// Projections back into the residual stream begin smaller, so that its variance does not grow with
/// depth (Radford et al. 2019).
float residual_deviation(const ModelShape& shape) {
  return static_cast<float>(0.02 / std::sqrt(2.0 * static_cast<double>(shape.layers)));
}

AttentionAttributes attention_attributes(const ModelShape& shape, const Flow& flow) {
  return {.shape = {.sequences = flow.sequences,
                    .sequence = flow.sequence,
                    .heads = shape.heads,
                    .kv_heads = shape.kv_heads,
                    .head_dim = shape.head_size()},
          .rope_theta = shape.kind == ModelKind::Llama ? static_cast<float>(shape.rope_theta) : 0,
          .cache = flow.cache};
}

SegmentSpec gpt_block(const ModelShape& s, const Flow& flow, std::int64_t index) {
  const std::string prefix = "transformer.h." + std::to_string(index) + ".";
  const float epsilon = static_cast<float>(s.norm_eps);
  const std::int64_t wide = (s.heads + 2 * s.kv_heads) * s.head_size();
  const float small = residual_deviation(s);
  return {
      "block " + std::to_string(index),
      {
          spec::layernorm(prefix + "ln_1", flow, s.hidden, epsilon),
          spec::linear(prefix + "attn.c_attn", flow,
                       {.in = s.hidden, .out = wide, .bias = Bias::Add}),
          spec::attention(prefix + "attn", flow, attention_attributes(s, flow)),
          spec::linear(prefix + "attn.c_proj", flow,
                       {.in = s.hidden, .out = s.hidden, .bias = Bias::Add, .deviation = small}),
          spec::residual(prefix + "attn.residual", flow, s.hidden, 0),
          spec::layernorm(prefix + "ln_2", flow, s.hidden, epsilon),
          spec::linear(prefix + "mlp.c_fc", flow,
                       {.in = s.hidden, .out = s.ffn, .bias = Bias::Add}),
          spec::gelu(prefix + "mlp.act", flow, s.ffn),
          spec::linear(prefix + "mlp.c_proj", flow,
                       {.in = s.ffn, .out = s.hidden, .bias = Bias::Add, .deviation = small}),
          spec::residual(prefix + "mlp.residual", flow, s.hidden, 5),
      }};
}

SegmentSpec llama_block(const ModelShape& s, const Flow& flow, std::int64_t index) {
  const std::string prefix = "model.layers." + std::to_string(index) + ".";
  const float epsilon = static_cast<float>(s.norm_eps);
  const std::int64_t q = s.heads * s.head_size();
  const std::int64_t kv = s.kv_heads * s.head_size();
  const auto matrix = [&](std::int64_t in, std::int64_t out, std::vector<Piece> pieces = {}) {
    return spec::LinearShape{
        .in = in, .out = out, .weight = Transpose::Yes, .pieces = std::move(pieces)};
  };
  return {"block " + std::to_string(index),
          {
              spec::rmsnorm(prefix + "input_layernorm", flow, s.hidden, epsilon),
              spec::linear(prefix + "self_attn.qkv_proj", flow,
                           matrix(s.hidden, q + 2 * kv,
                                  {{prefix + "self_attn.q_proj.weight", 0, q},
                                   {prefix + "self_attn.k_proj.weight", q, kv},
                                   {prefix + "self_attn.v_proj.weight", q + kv, kv}})),
              spec::attention(prefix + "self_attn", flow, attention_attributes(s, flow)),
              spec::linear(prefix + "self_attn.o_proj", flow, matrix(q, s.hidden)),
              spec::residual(prefix + "self_attn.residual", flow, s.hidden, 0),
              spec::rmsnorm(prefix + "post_attention_layernorm", flow, s.hidden, epsilon),
              spec::linear(prefix + "mlp.gate_up_proj", flow,
                           matrix(s.hidden, 2 * s.ffn,
                                  {{prefix + "mlp.gate_proj.weight", 0, s.ffn},
                                   {prefix + "mlp.up_proj.weight", s.ffn, s.ffn}})),
              spec::swiglu(prefix + "mlp.act", flow, s.ffn),
              spec::linear(prefix + "mlp.down_proj", flow, matrix(s.ffn, s.hidden)),
              spec::residual(prefix + "mlp.residual", flow, s.hidden, 5),
          }};
}

/// Nothing outlives F where there is no backward.
void drop_backward(ModelSpec& model) {
  for (SegmentSpec& segment : model.segments) {
    for (LayerSpec& layer : segment.layers) {
      layer.x_until = layer.y_until = Until::Forward;
      for (KeptTensor& kept : layer.kept_by_forward) kept.until = Until::Forward;
      layer.kept_by_input.clear();
      layer.backward_input.clear();
      layer.backward_weight.clear();
    }
  }
}

/// Where the two architectures differ outside their blocks.
struct Names {
  std::string tokens;
  std::string positions;
  std::string norm;
};

Names names_of(ModelKind kind) {
  if (kind == ModelKind::Gpt) {
    return {"transformer.wte.weight", "transformer.wpe.weight", "transformer.ln_f"};
  }
  return {"model.embed_tokens.weight", "", "model.norm"};
}

}  // namespace

ModelSpec model_spec(const ModelShape& shape, const Flow& flow, std::int64_t loss_blocks) {
  check(shape);
  require(flow.sequence <= shape.context, "train.sequence ", flow.sequence,
          " is longer than model.context ", shape.context,
          "; shorten the sequence or raise model.context");
  require(loss_blocks >= 1 && loss_blocks <= shape.vocab, "train.loss_blocks ", loss_blocks,
          " must be between 1 and the vocabulary ", shape.vocab);

  const bool gpt = shape.kind == ModelKind::Gpt;
  const Names names = names_of(shape.kind);
  const float epsilon = static_cast<float>(shape.norm_eps);
  ModelSpec model{shape, flow, {}};
  model.segments.push_back({"embedding",
                            {spec::embedding("embedding", flow,
                                             {.vocabulary = shape.vocab,
                                              .features = shape.hidden,
                                              .context = gpt ? shape.context : 0,
                                              .token_name = names.tokens,
                                              .position_name = names.positions})}});
  for (std::int64_t i = 0; i < shape.layers; ++i) {
    model.segments.push_back(gpt ? gpt_block(shape, flow, i) : llama_block(shape, flow, i));
  }
  model.segments.push_back({"head",
                            {gpt ? spec::layernorm(names.norm, flow, shape.hidden, epsilon)
                                 : spec::rmsnorm(names.norm, flow, shape.hidden, epsilon),
                             spec::loss("head", flow,
                                        {.vocabulary = shape.vocab,
                                         .features = shape.hidden,
                                         .blocks = loss_blocks,
                                         .weight_name = "lm_head.weight",
                                         .tied_to = shape.tie_embeddings ? names.tokens : ""})}});
  if (flow.cache > 0) drop_backward(model);
  return model;
}

std::int64_t parameter_count(const ModelSpec& model) {
  std::int64_t count = 0;
  for (const SegmentSpec& segment : model.segments) count += parameter_count(segment);
  return count;
}

std::int64_t flops(const ModelSpec& model) {
  std::int64_t count = 0;
  for (const SegmentSpec& segment : model.segments) count += flops(segment);
  return count;
}

}  // namespace cleave
