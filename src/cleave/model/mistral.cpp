#include "cleave/model/decoder.h"
#include "cleave/model/decoder_config.h"
#include "cleave/model/family.h"
#include "cleave/model/hugging_face.h"
#include "cleave/model/shape_keys.h"

namespace cleave::model {
namespace {

/// A Llama whose layers may have a window.
Graph build_mistral(const ModelShape& s, const spec::Flow& flow, std::int64_t loss_blocks) {
  return decoder(s, {.qkv_bias = s.attention_bias, .out_bias = s.attention_bias}, flow,
                 loss_blocks);
}

void read_mistral(const ConfigJson& config, ModelShape& shape) {
  read_decoder(config, {.kv_heads = 8}, shape);
  config.refuse_if_true("attention_bias", "this family has no biases");
  // A missing key stands for 4096 there, and null for no window.
  read_window(config, shape);
  if (!config.mentions("sliding_window")) shape.window = 4096;
}

void write_mistral(const ModelShape& shape, ConfigJsonText& config) {
  write_decoder(shape, config);
  write_window(shape, config);
}

constexpr HuggingFace kMistralNames = {.model_type = "mistral",
                                       .architecture = "MistralForCausalLM",
                                       .read = read_mistral,
                                       .write = write_mistral};

}  // namespace

constinit const Family mistral = {.name = "mistral",
                                  .build = build_mistral,
                                  .check = check_decoder,
                                  .default_ffn = gated_ffn,
                                  .usual_vocabulary = 32000,
                                  .ffn_matrices = 3,
                                  .hugging_face = &kMistralNames,
                                  .unread = kUnreadByDecoders};

}  // namespace cleave::model
