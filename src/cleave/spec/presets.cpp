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

constexpr std::array<Preset, 6> kPresets = {{
    {"gpt2-124m", gpt2(12, 768, 12), "GPT-2 small"},
    {"gpt2-350m", gpt2(24, 1024, 16), "GPT-2 medium"},
    {"llama-160m", kLlama160m, "Llama with 12 layers of 768"},
    {"llama-1b", kLlama1b, "the TinyLlama shape, 1.1 billion parameters"},
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
