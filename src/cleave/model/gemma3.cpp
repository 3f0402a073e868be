#include <cmath>

#include "cleave/model/decoder.h"
#include "cleave/model/decoder_config.h"
#include "cleave/model/family.h"
#include "cleave/model/hugging_face.h"

namespace cleave::model {
namespace {

/// A Llama with norms around attention and the feed-forward part and of q and k, all by one plus
/// their weight, gelu for silu, embeddings that are multiplied by √hidden, and windows in all but
/// every sixth layer or so, which have rotary positions of their own.
Graph build_gemma3(const ModelShape& s, const spec::Flow& flow, std::int64_t loss_blocks) {
  return decoder(s,
                 {.qkv_bias = s.attention_bias,
                  .out_bias = s.attention_bias,
                  .qk_norm = DecoderStyle::QkNorm::Heads,
                  .norms = DecoderStyle::Norms::Around,
                  .norm_weight = NormWeight::OnePlus,
                  .gate = DecoderStyle::Gate::Gelu,
                  .scaled_embedding = true,
                  .local_rope = true},
                 flow, loss_blocks);
}

/// Either rope_theta, rope_local_base_freq and rope_scaling, or rope_parameters with a table for
/// each kind of layer.
void read_gemma3_rope(const ConfigJson& config, ModelShape& shape) {
  const auto context = static_cast<double>(shape.context);
  shape.rope_theta = config.number("rope_theta", 1000000);
  shape.local_rope_theta = config.number("rope_local_base_freq", 10000);
  if (const auto rope = config.table("rope_scaling")) {
    shape.rope_scaling = read_rope_scaling(config, *rope, context);
    rope->finish();
  }
  const std::optional<ConfigJson> newer = config.table("rope_parameters");
  if (!newer) return;
  if (const auto rope = newer->table("full_attention")) {
    shape.rope_theta = rope->number("rope_theta", shape.rope_theta);
    const RopeScaling scaling = read_rope_scaling(config, *rope, context);
    if (config.table("rope_scaling") && scaling != shape.rope_scaling)
      config.refuse("rope_scaling", "rope_parameters says otherwise of the same layers");
    shape.rope_scaling = scaling;
    rope->finish();
  }
  if (const auto rope = newer->table("sliding_attention")) {
    shape.local_rope_theta = rope->number("rope_theta", shape.local_rope_theta);
    if (rope->text("rope_type", "default") != "default")
      rope->refuse("rope_type", "cleave does not scale the positions of layers with a window");
    rope->finish();
  }
  newer->finish();
}

void read_gemma3(const ConfigJson& config, ModelShape& shape) {
  read_decoder_sizes(config, {.tie_embeddings = true, .kv_heads = 4, .pad_token = 0}, shape);
  if (!config.has("head_dim")) shape.head_dim = 256;
  if (config.text("hidden_activation", "gelu_pytorch_tanh") != "gelu_pytorch_tanh")
    config.refuse("hidden_activation", "cleave has \"gelu_pytorch_tanh\" in this family");
  for (const char* cap : {"attn_logit_softcapping", "final_logit_softcapping"}) {
    if (config.has(cap))
      config.refuse(cap,
                    "cleave has no caps in this family; they were of its "
                    "second edition");
  }
  config.refuse_if_true("use_bidirectional_attention", "cleave's language models are causal");
  shape.attention_bias = config.truth("attention_bias", false);
  const double scalar = config.number("query_pre_attn_scalar", 256);
  if (!(scalar > 0)) config.refuse("query_pre_attn_scalar", "scores are divided by its root");
  const bool usual = scalar == static_cast<double>(shape.head_size());
  shape.attention_scale = usual ? 0 : 1 / std::sqrt(scalar);
  read_window(config, shape);
  if (!config.mentions("sliding_window")) shape.window = 4096;
  const std::int64_t pattern = config.whole("_sliding_window_pattern", 6);
  shape.full_every = config.whole("sliding_window_pattern", pattern);
  read_layer_types(config, shape);
  if (shape.window == 0 && shape.full_every > 1)
    config.refuse("sliding_window", "layers of this family have a window; say how many tokens");
  if (shape.window == 0) shape.full_every = 0;
  read_gemma3_rope(config, shape);
}

void write_gemma3(const ModelShape& shape, ConfigJsonText& config) {
  write_decoder_sizes(shape, config);
  config.set("hidden_activation", std::string("gelu_pytorch_tanh"));
  config.set("attention_bias", shape.attention_bias);
  const double scale = shape.attention_scale > 0
                           ? shape.attention_scale
                           : 1 / std::sqrt(static_cast<double>(shape.head_size()));
  // A whole number in all published models, which its root does not give back exactly.
  const double scalar = 1 / (scale * scale);
  const bool whole = std::abs(scalar - std::round(scalar)) < 1e-9 * scalar;
  if (whole) {
    config.set("query_pre_attn_scalar", static_cast<std::int64_t>(std::round(scalar)));
  } else {
    config.set("query_pre_attn_scalar", scalar);
  }
  config.set("sliding_window", shape.window > 0 ? shape.window : shape.context);
  write_layer_types(shape, config);
  write_rope(shape, config);
  config.set("rope_local_base_freq", shape.local_rope_theta);
}

constexpr HuggingFace kGemma3Names = {.model_type = "gemma3_text",
                                      .architecture = "Gemma3ForCausalLM",
                                      .read = read_gemma3,
                                      .write = write_gemma3};

}  // namespace

constinit const Family gemma3 = {.name = "gemma3",
                                 .build = build_gemma3,
                                 .check = check_decoder,
                                 .default_ffn = gated_ffn,
                                 .ties_embeddings = true,
                                 .usual_vocabulary = 262144,
                                 .ffn_matrices = 3,
                                 .hugging_face = &kGemma3Names};

}  // namespace cleave::model
