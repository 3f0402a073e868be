#include "cleave/model/decoder.h"
#include "cleave/model/decoder_config.h"
#include "cleave/model/family.h"
#include "cleave/model/hugging_face.h"

namespace cleave::model {
namespace {

/// A Llama of which some layers have no rotary positions.
Graph build_smollm3(const ModelShape& s, const spec::Flow& flow, std::int64_t loss_blocks) {
  return decoder(s, {.qkv_bias = s.attention_bias, .out_bias = s.attention_bias}, flow,
                 loss_blocks);
}

void read_smollm3(const ConfigJson& config, ModelShape& shape) {
  read_decoder(config, {.rope_theta = 2000000, .tie_embeddings = true}, shape);
  shape.attention_bias = config.truth("attention_bias", false);
  shape.mlp_bias = config.truth("mlp_bias", false);
  config.refuse_if_true("use_sliding_window", "cleave has no windows in this family");
  config.whole("sliding_window", 0);
  config.whole("max_window_layers", 0);
  read_layer_types(config, shape);
  shape.nope_every = config.whole("no_rope_layer_interval", 4);
  if (!config.has("no_rope_layers")) return;
  const std::vector<std::int64_t> turns = config.wholes("no_rope_layers");
  const auto fits = [&](std::int64_t every) {
    for (std::int64_t i = 0; i < std::ssize(turns); ++i) {
      if ((turns[i] != 0) != (every == 0 || (i + 1) % every != 0)) return false;
    }
    return std::ssize(turns) == shape.layers;
  };
  for (std::int64_t every = 0; every <= shape.layers; ++every) {
    if (!fits(every)) continue;
    shape.nope_every = every;
    return;
  }
  config.refuse("no_rope_layers", "cleave leaves rotary positions out in every n-th layer");
}

void write_smollm3(const ModelShape& shape, ConfigJsonText& config) {
  write_decoder(shape, config);
  config.set("attention_bias", shape.attention_bias);
  config.set("mlp_bias", shape.mlp_bias);
  std::vector<std::int64_t> turns;
  for (std::int64_t i = 0; i < shape.layers; ++i)
    turns.push_back(shape.nope_every == 0 || (i + 1) % shape.nope_every != 0);
  config.set("no_rope_layers", turns);
  if (shape.nope_every > 0) config.set("no_rope_layer_interval", shape.nope_every);
}

constexpr HuggingFace kSmollm3Names = {.model_type = "smollm3",
                                       .architecture = "SmolLM3ForCausalLM",
                                       .read = read_smollm3,
                                       .write = write_smollm3};

}  // namespace

constinit const Family smollm3 = {.name = "smollm3",
                                  .build = build_smollm3,
                                  .check = check_decoder,
                                  .default_ffn = gated_ffn,
                                  .ties_embeddings = true,
                                  .usual_vocabulary = 128256,
                                  .ffn_matrices = 3,
                                  .hugging_face = &kSmollm3Names};

}  // namespace cleave::model
