#include <array>

#include "cleave/base/check.h"
#include "cleave/model/family.h"
#include "cleave/model/language_model.h"
#include "cleave/model/presets.h"

namespace cleave::model {
namespace {

using spec::Flow;

/// Tensors of their own, one below the other in one product.
struct FusedRows {
  std::int64_t rows = 0;
  std::vector<Piece> pieces;
  std::vector<CutSpan> spans;

  void add(const std::string& tensor, const CutSpan& span) {
    const std::int64_t extent = span.units * span.width;
    pieces.push_back({.name = tensor, .first = rows, .extent = extent});
    spans.push_back(span);
    rows += extent;
  }

  spec::LinearShape shape(std::int64_t in) const {
    return {.in = in,
            .out = rows,
            .weight = Transpose::Yes,
            .pieces = pieces,
            .rule = CutRule::Column,
            .spans = spans};
  }
};

spec::LinearShape llama_back(const ModelShape& s, const CutSpan& wide) {
  return {.in = wide.units * wide.width,
          .out = s.hidden,
          .weight = Transpose::Yes,
          .rule = CutRule::Row,
          .spans = {wide}};
}

/// As Hugging Face does, the base is rounded to f32 first.
std::vector<double> llama_frequencies(const ModelShape& s) {
  return rope_frequencies(static_cast<float>(s.rope_theta), s.head_size());
}

SegmentSpec llama_block(const ModelShape& s, const Flow& flow, std::int64_t index) {
  const std::string name = "model.layers." + std::to_string(index) + ".";
  const float epsilon = static_cast<float>(s.norm_eps);
  const CutSpan heads{.units = s.heads, .width = s.head_size(), .what = "model.heads"};
  const CutSpan kv_heads{
      .units = s.kv_heads, .width = s.head_size(), .shareable = true, .what = "model.kv_heads"};
  const CutSpan ffn{.units = s.ffn, .what = "model.ffn"};
  FusedRows qkv;
  qkv.add(name + "self_attn.q_proj.weight", heads);
  qkv.add(name + "self_attn.k_proj.weight", kv_heads);
  qkv.add(name + "self_attn.v_proj.weight", kv_heads);
  FusedRows gate_up;
  gate_up.add(name + "mlp.gate_proj.weight", ffn);
  gate_up.add(name + "mlp.up_proj.weight", ffn);
  const AttentionAttributes attributes{.shape = {.sequences = flow.sequences,
                                                 .sequence = flow.sequence,
                                                 .heads = s.heads,
                                                 .kv_heads = s.kv_heads,
                                                 .head_dim = s.head_size()},
                                       .rope = {.frequencies = llama_frequencies(s)},
                                       .cache = flow.cache};
  return {.name = "block " + std::to_string(index),
          .layers = {spec::rmsnorm(name + "input_layernorm", flow, s.hidden, epsilon),
                     spec::linear(name + "self_attn.qkv_proj", flow, qkv.shape(s.hidden)),
                     spec::attention(name + "self_attn", flow, attributes),
                     spec::linear(name + "self_attn.o_proj", flow, llama_back(s, heads)),
                     spec::residual(name + "self_attn.residual", flow, s.hidden, 0),
                     spec::rmsnorm(name + "post_attention_layernorm", flow, s.hidden, epsilon),
                     spec::linear(name + "mlp.gate_up_proj", flow, gate_up.shape(s.hidden)),
                     spec::swiglu(name + "mlp.act", flow, s.ffn),
                     spec::linear(name + "mlp.down_proj", flow, llama_back(s, ffn)),
                     spec::residual(name + "mlp.residual", flow, s.hidden, 5)},
          .block = true};
}

Graph build_llama(const ModelShape& s, const Flow& flow, std::int64_t loss_blocks) {
  std::vector<SegmentSpec> blocks;
  for (std::int64_t i = 0; i < s.layers; ++i) blocks.push_back(llama_block(s, flow, i));
  return language_model(
      s, flow, loss_blocks, {.tokens = "model.embed_tokens.weight"}, std::move(blocks),
      spec::rmsnorm("model.norm", flow, s.hidden, static_cast<float>(s.norm_eps)));
}

void check_llama(const ModelShape& s) {
  require(s.head_size() % 2 == 0, "a head of ", s.head_size(),
          " (model.hidden / model.heads) is odd, but rotary positions turn pairs; change "
          "model.heads");
}

/// ⌈8·hidden/3⌉ rounded up to a multiple of 64.
std::int64_t llama_ffn(std::int64_t hidden) {
  const std::int64_t exact = (8 * hidden + 2) / 3;
  return (exact + 63) / 64 * 64;
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

}  // namespace

constinit const Family llama = {.name = "llama",
                                .build = build_llama,
                                .check = check_llama,
                                .default_ffn = llama_ffn,
                                .presets = kLlamaPresets,
                                .usual_vocabulary = 32000,
                                .ffn_matrices = 3};

}  // namespace cleave::model
