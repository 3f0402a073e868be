#include <array>

#include "cleave/model/decoder.h"
#include "cleave/model/decoder_config.h"
#include "cleave/model/family.h"
#include "cleave/model/hugging_face.h"
#include "cleave/model/presets.h"
#include "cleave/model/shape_keys.h"

namespace cleave::model {
namespace {

Graph build_llama(const ModelShape& s, const spec::Flow& flow, std::int64_t loss_blocks) {
  const DecoderStyle style{.qkv_bias = s.attention_bias, .out_bias = s.attention_bias};
  return decoder(s, style, flow, loss_blocks);
}

/// The sizes in which Llamas differ.
struct LlamaSizes {
  std::int64_t layers;
  std::int64_t hidden;
  std::int64_t heads;
  std::int64_t kv_heads;
  std::int64_t ffn;
};

constexpr ModelShape llama_shape(const LlamaSizes& sizes, std::int64_t vocab, std::int64_t context,
                                 double norm_eps = 1e-5) {
  return {.kind = &llama,
          .layers = sizes.layers,
          .hidden = sizes.hidden,
          .heads = sizes.heads,
          .kv_heads = sizes.kv_heads,
          .ffn = sizes.ffn,
          .vocab = vocab,
          .context = context,
          .tie_embeddings = false,
          .norm_eps = norm_eps};
}

constexpr std::array<Preset, 11> kLlamaPresets = {{
    {"llama-160m", llama_shape({12, 768, 12, 12, 3072}, 32000, 2048, 1e-6),
     "Llama with 12 layers of 768"},
    {"llama-1b", llama_shape({22, 2048, 32, 4, 5632}, 32000, 2048),
     "the TinyLlama shape, 1.1 billion parameters"},
    {"llama-7b", llama_shape({32, 4096, 32, 32, 11008}, 32000, 4096), "Llama 2 7B"},
    {"llama-13b", llama_shape({40, 5120, 40, 40, 13824}, 32000, 4096), "Llama 2 13B"},
    {"llama-33b", llama_shape({60, 6656, 52, 52, 17920}, 32000, 2048), "Llama 33B"},
    {"llama-65b", llama_shape({80, 8192, 64, 64, 22016}, 32000, 2048), "Llama 65B"},
    {"llama-70b", llama_shape({80, 8192, 64, 8, 28672}, 32000, 4096), "Llama 2 70B"},
    {"llama3-8b", llama_shape({32, 4096, 32, 8, 14336}, 128256, 8192), "Llama 3 8B"},
    {"llama3-70b", llama_shape({80, 8192, 64, 8, 28672}, 128256, 8192), "Llama 3 70B"},
    {"llama3-405b", llama_shape({126, 16384, 128, 8, 53248}, 128256, 8192), "Llama 3 405B"},
    {"llama-tiny", llama_shape({4, 64, 4, 2, 192}, 256, 64),
     "four layers of 64 on bytes with grouped heads, for tests"},
}};

void read_llama(const ConfigJson& config, ModelShape& shape) {
  read_decoder(config, {}, shape);
  shape.attention_bias = config.truth("attention_bias", false);
  shape.mlp_bias = config.truth("mlp_bias", false);
}

void write_llama(const ModelShape& shape, ConfigJsonText& config) {
  write_decoder(shape, config);
  config.set("attention_bias", shape.attention_bias);
  config.set("mlp_bias", shape.mlp_bias);
}

constexpr HuggingFace kLlamaNames = {.model_type = "llama",
                                     .architecture = "LlamaForCausalLM",
                                     .read = read_llama,
                                     .write = write_llama};

}  // namespace

constinit const Family llama = {.name = "llama",
                                .build = build_llama,
                                .check = check_decoder,
                                .default_ffn = gated_ffn,
                                .presets = kLlamaPresets,
                                .usual_vocabulary = 32000,
                                .ffn_matrices = 3,
                                .hugging_face = &kLlamaNames,
                                .unread = kUnreadByDecoders};

}  // namespace cleave::model
