#include <array>
#include <cmath>

#include "cleave/base/check.h"
#include "cleave/model/family.h"
#include "cleave/model/hugging_face.h"
#include "cleave/model/language_model.h"
#include "cleave/model/presets.h"
#include "cleave/model/shape_keys.h"

namespace cleave::model {
namespace {

using spec::Flow;

/// Projections back into the residual stream begin smaller, so that its variance does not grow with
/// depth (Radford et al. 2019).
float residual_deviation(const ModelShape& shape) {
  return static_cast<float>(0.02 / std::sqrt(2.0 * static_cast<double>(shape.layers)));
}

spec::LinearShape gpt_back(const ModelShape& s, const CutSpan& wide) {
  return {.in = wide.units * wide.width,
          .out = s.hidden,
          .bias = Bias::Add,
          .deviation = residual_deviation(s),
          .rule = CutRule::Row,
          .spans = {wide}};
}

SegmentSpec gpt_block(const ModelShape& s, const Flow& flow, std::int64_t index) {
  const std::string name = "transformer.h." + std::to_string(index) + ".";
  const float epsilon = static_cast<float>(s.norm_eps);
  const CutSpan heads{.units = s.heads, .width = s.head_size(), .what = "model.heads"};
  const CutSpan ffn{.units = s.ffn, .what = "model.ffn"};
  const AttentionAttributes attributes{.shape = {.sequences = flow.sequences,
                                                 .sequence = flow.sequence,
                                                 .heads = s.heads,
                                                 .kv_heads = s.heads,
                                                 .head_dim = s.head_size(),
                                                 .documents = flow.documents},
                                       .cache = flow.cache};
  return {.name = "block " + std::to_string(index),
          .layers = {spec::layernorm(name + "ln_1", flow, s.hidden, epsilon),
                     spec::linear(name + "attn.c_attn", flow,
                                  {.in = s.hidden,
                                   .out = 3 * s.hidden,
                                   .bias = Bias::Add,
                                   .rule = CutRule::Column,
                                   .spans = {heads, heads, heads}}),
                     spec::attention(name + "attn", flow, attributes),
                     spec::linear(name + "attn.c_proj", flow, gpt_back(s, heads)),
                     spec::residual(name + "attn.residual", flow, s.hidden, 0),
                     spec::layernorm(name + "ln_2", flow, s.hidden, epsilon),
                     spec::linear(name + "mlp.c_fc", flow,
                                  {.in = s.hidden,
                                   .out = s.ffn,
                                   .bias = Bias::Add,
                                   .rule = CutRule::Column,
                                   .spans = {ffn}}),
                     spec::gelu(name + "mlp.act", flow, s.ffn),
                     spec::linear(name + "mlp.c_proj", flow, gpt_back(s, ffn)),
                     spec::residual(name + "mlp.residual", flow, s.hidden, 5)},
          .block = true};
}

Graph build_gpt(const ModelShape& s, const Flow& flow, std::int64_t loss_blocks) {
  std::vector<SegmentSpec> blocks;
  for (std::int64_t i = 0; i < s.layers; ++i) blocks.push_back(gpt_block(s, flow, i));
  return language_model(
      s, flow, loss_blocks, {"transformer.wte.weight", "transformer.wpe.weight"}, std::move(blocks),
      spec::layernorm("transformer.ln_f", flow, s.hidden, static_cast<float>(s.norm_eps)));
}

void check_gpt(const ModelShape& s) {
  require(s.kv_heads == s.heads, "model.kv_heads ", s.kv_heads, " differs from model.heads ",
          s.heads,
          ", but gpt has no grouped heads; leave model.kv_heads out or use kind = \"llama\"");
}

constexpr ModelShape gpt2(std::int64_t layers, std::int64_t hidden, std::int64_t heads) {
  return {.kind = &gpt,
          .layers = layers,
          .hidden = hidden,
          .heads = heads,
          .kv_heads = heads,
          .ffn = 4 * hidden,
          .vocab = 50257,
          .context = 1024};
}

constexpr ModelShape gpt3(std::int64_t layers, std::int64_t hidden, std::int64_t heads) {
  ModelShape shape = gpt2(layers, hidden, heads);
  shape.vocab = 51200;
  shape.context = 2048;
  return shape;
}

constexpr ModelShape kGptTiny = {.kind = &gpt,
                                 .layers = 4,
                                 .hidden = 64,
                                 .heads = 4,
                                 .kv_heads = 4,
                                 .ffn = 256,
                                 .vocab = 256,
                                 .context = 64};

constexpr std::array<Preset, 8> kGptPresets = {{
    {"gpt2-124m", gpt2(12, 768, 12), "GPT-2 small"},
    {"gpt2-350m", gpt2(24, 1024, 16), "GPT-2 medium"},
    {"gpt2-1.5b", gpt2(48, 1600, 25), "GPT-2 XL"},
    {"gpt3-22b", gpt3(48, 6144, 64), "22 billion parameters, as in studies of recomputation"},
    {"gpt3-175b", gpt3(96, 12288, 96), "GPT-3"},
    {"gpt3-530b", gpt3(105, 20480, 128), "Megatron-Turing NLG"},
    {"gpt3-1t", gpt3(128, 25600, 160), "one trillion parameters"},
    {"gpt-tiny", kGptTiny, "four layers of 64 on bytes, for tests"},
}};

void read_gpt(const ConfigJson& config, ModelShape& shape) {
  shape.layers = config.whole("n_layer");
  shape.hidden = config.whole("n_embd");
  shape.heads = shape.kv_heads = config.whole("n_head");
  shape.ffn = config.whole("n_inner", 4 * shape.hidden);
  shape.vocab = config.whole("vocab_size");
  shape.context = config.whole("n_positions");
  shape.norm_eps = config.number("layer_norm_epsilon", 1e-5);
  shape.tie_embeddings = config.truth("tie_word_embeddings", true);
  const std::string activation = config.text("activation_function", "gelu_new");
  if (activation != "gelu_new" && activation != "gelu_pytorch_tanh")
    config.refuse("activation_function", "cleave has \"gelu_new\" in this family");
  if (!config.truth("scale_attn_weights", true))
    config.refuse("scale_attn_weights", "cleave scales scores by 1/√head_dim in this family");
  config.refuse_if_true("scale_attn_by_inverse_layer_idx",
                        "cleave scales the scores of all layers alike");
}

void write_gpt(const ModelShape& shape, ConfigJsonText& config) {
  config.set("n_layer", shape.layers);
  config.set("n_embd", shape.hidden);
  config.set("n_head", shape.heads);
  config.set("n_inner", shape.ffn);
  config.set("vocab_size", shape.vocab);
  config.set("n_positions", shape.context);
  config.set("layer_norm_epsilon", shape.norm_eps);
  config.set("activation_function", std::string("gelu_new"));
}

constexpr HuggingFace kGptNames = {
    .model_type = "gpt2", .architecture = "GPT2LMHeadModel", .read = read_gpt, .write = write_gpt};

}  // namespace

constinit const Family gpt = {.name = "gpt",
                              .build = build_gpt,
                              .check = check_gpt,
                              .default_ffn = [](std::int64_t hidden) { return 4 * hidden; },
                              .presets = kGptPresets,
                              .ties_embeddings = true,
                              .learns_positions = true,
                              .usual_vocabulary = 51200,
                              .ffn_matrices = 2,
                              .known_to_early_software = true,
                              .hugging_face = &kGptNames,
                              .unread = kUnreadWithoutRotation};

}  // namespace cleave::model
