#include "cleave/spec/presets.h"

#include <array>
#include <string>

#include "cleave/base/check.h"

namespace cleave {
namespace {

constexpr ModelShape gpt2(std::int64_t layers, std::int64_t hidden, std::int64_t heads) {
  return {.kind = ModelKind::Gpt,
          .layers = layers,
          .hidden = hidden,
          .heads = heads,
          .kv_heads = heads,
          .ffn = 4 * hidden,
          .vocab = 50257,
          .context = 1024};
}

constexpr ModelShape kGptTiny = {.kind = ModelKind::Gpt,
                                 .layers = 4,
                                 .hidden = 64,
                                 .heads = 4,
                                 .kv_heads = 4,
                                 .ffn = 256,
                                 .vocab = 256,
                                 .context = 64};

constexpr ModelShape kLlamaTiny = {.kind = ModelKind::Llama,
                                   .layers = 4,
                                   .hidden = 64,
                                   .heads = 4,
                                   .kv_heads = 2,
                                   .ffn = 192,
                                   .vocab = 256,
                                   .context = 64,
                                   .tie_embeddings = false};

constexpr ModelShape kLlama160m = {.kind = ModelKind::Llama,
                                   .layers = 12,
                                   .hidden = 768,
                                   .heads = 12,
                                   .kv_heads = 12,
                                   .ffn = 3072,
                                   .vocab = 32000,
                                   .context = 2048,
                                   .tie_embeddings = false,
                                   .norm_eps = 1e-6};

constexpr ModelShape kLlama1b = {.kind = ModelKind::Llama,
                                 .layers = 22,
                                 .hidden = 2048,
                                 .heads = 32,
                                 .kv_heads = 4,
                                 .ffn = 5632,
                                 .vocab = 32000,
                                 .context = 2048,
                                 .tie_embeddings = false};

constexpr ModelShape gpt3(std::int64_t layers, std::int64_t hidden, std::int64_t heads) {
  return {.kind = ModelKind::Gpt,
          .layers = layers,
          .hidden = hidden,
          .heads = heads,
          .kv_heads = heads,
          .ffn = 4 * hidden,
          .vocab = 51200,
          .context = 2048};
}

/// The sizes in which Llamas differ.
struct LlamaSizes {
  std::int64_t layers;
  std::int64_t hidden;
  std::int64_t heads;
  std::int64_t kv_heads;
  std::int64_t ffn;
};

constexpr ModelShape llama(const LlamaSizes& sizes, std::int64_t vocab, std::int64_t context) {
  return {.kind = ModelKind::Llama,
          .layers = sizes.layers,
          .hidden = sizes.hidden,
          .heads = sizes.heads,
          .kv_heads = sizes.kv_heads,
          .ffn = sizes.ffn,
          .vocab = vocab,
          .context = context,
          .tie_embeddings = false};
}

constexpr std::array<Preset, 19> kPresets = {{
    {"gpt2-124m", gpt2(12, 768, 12), "GPT-2 small"},
    {"gpt2-350m", gpt2(24, 1024, 16), "GPT-2 medium"},
    {"llama-160m", kLlama160m, "Llama with 12 layers of 768"},
    {"llama-1b", kLlama1b, "the TinyLlama shape, 1.1 billion parameters"},
    {"gpt3-22b", gpt3(48, 6144, 64), "22 billion parameters, as in studies of recomputation"},
    {"gpt3-175b", gpt3(96, 12288, 96), "GPT-3"},
    {"gpt3-530b", gpt3(105, 20480, 128), "Megatron-Turing NLG"},
    {"gpt3-1t", gpt3(128, 25600, 160), "one trillion parameters"},
    {"llama-7b", llama({32, 4096, 32, 32, 11008}, 32000, 4096), "Llama 2 7B"},
    {"llama-13b", llama({40, 5120, 40, 40, 13824}, 32000, 4096), "Llama 2 13B"},
    {"llama-33b", llama({60, 6656, 52, 52, 17920}, 32000, 2048), "Llama 33B"},
    {"llama-65b", llama({80, 8192, 64, 64, 22016}, 32000, 2048), "Llama 65B"},
    {"llama-70b", llama({80, 8192, 64, 8, 28672}, 32000, 4096), "Llama 2 70B"},
    {"llama3-8b", llama({32, 4096, 32, 8, 14336}, 128256, 8192), "Llama 3 8B"},
    {"llama3-70b", llama({80, 8192, 64, 8, 28672}, 128256, 8192), "Llama 3 70B"},
    {"llama3-405b", llama({126, 16384, 128, 8, 53248}, 128256, 8192), "Llama 3 405B"},
    {"gpt2-1.5b", gpt2(48, 1600, 25), "GPT-2 XL"},
    {"gpt-tiny", kGptTiny, "four layers of 64 on bytes, for tests"},
    {"llama-tiny", kLlamaTiny, "four layers of 64 on bytes with grouped heads, for tests"},
}};

}  // namespace

std::span<const Preset> presets() {
  return kPresets;
}

const Preset& find_preset(std::string_view name) {
  std::string known;
  for (const Preset& preset : kPresets) {
    if (preset.name == name) return preset;
    if (!known.empty()) known += ", ";
    known += preset.name;
  }
  throw UserError(detail::concat("there is no model preset \"", name, "\"; known are ", known));
}

}  // namespace cleave
