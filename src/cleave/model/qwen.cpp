#include "cleave/model/decoder.h"
#include "cleave/model/decoder_config.h"
#include "cleave/model/family.h"
#include "cleave/model/hugging_face.h"
#include "cleave/model/shape_keys.h"

namespace cleave::model {
namespace {

/// A Llama whose q, k and v have biases, and whose later layers may have a window.
Graph build_qwen2(const ModelShape& s, const spec::Flow& flow, std::int64_t loss_blocks) {
  return decoder(s, {.qkv_bias = true}, flow, loss_blocks);
}

/// A Llama whose q and k are normed head by head.
Graph build_qwen3(const ModelShape& s, const spec::Flow& flow, std::int64_t loss_blocks) {
  return decoder(s,
                 {.qkv_bias = s.attention_bias,
                  .out_bias = s.attention_bias,
                  .qk_norm = DecoderStyle::QkNorm::Heads},
                 flow, loss_blocks);
}

void read_qwen2(const ConfigJson& config, ModelShape& shape) {
  read_decoder(config, {.kv_heads = 32}, shape);
  read_late_windows(config, shape);
}

void write_qwen2(const ModelShape& shape, ConfigJsonText& config) {
  write_decoder(shape, config);
  write_late_windows(shape, config);
}

constexpr HuggingFace kQwen2Names = {.model_type = "qwen2",
                                     .architecture = "Qwen2ForCausalLM",
                                     .read = read_qwen2,
                                     .write = write_qwen2};

void read_qwen3(const ConfigJson& config, ModelShape& shape) {
  read_decoder(config, {.kv_heads = 32}, shape);
  if (!config.has("head_dim")) shape.head_dim = 128;
  shape.attention_bias = config.truth("attention_bias", false);
  read_late_windows(config, shape);
}

void write_qwen3(const ModelShape& shape, ConfigJsonText& config) {
  write_decoder(shape, config);
  config.set("attention_bias", shape.attention_bias);
  write_late_windows(shape, config);
}

constexpr HuggingFace kQwen3Names = {.model_type = "qwen3",
                                     .architecture = "Qwen3ForCausalLM",
                                     .read = read_qwen3,
                                     .write = write_qwen3};

}  // namespace

constinit const Family qwen2 = {.name = "qwen2",
                                .build = build_qwen2,
                                .check = check_decoder,
                                .default_ffn = gated_ffn,
                                .usual_vocabulary = 151936,
                                .ffn_matrices = 3,
                                .hugging_face = &kQwen2Names,
                                .unread = kUnreadByDecodersOfFixedBias};

constinit const Family qwen3 = {.name = "qwen3",
                                .build = build_qwen3,
                                .check = check_decoder,
                                .default_ffn = gated_ffn,
                                .usual_vocabulary = 151936,
                                .ffn_matrices = 3,
                                .hugging_face = &kQwen3Names,
                                .unread = kUnreadByDecoders};

}  // namespace cleave::model
