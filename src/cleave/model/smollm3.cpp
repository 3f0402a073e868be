#include <algorithm>

#include "cleave/model/decoder.h"
#include "cleave/model/decoder_config.h"
#include "cleave/model/family.h"
#include "cleave/model/hugging_face.h"
#include "cleave/model/shape_keys.h"

namespace cleave::model {
namespace {

/// A Llama of which some layers have no rotary positions.
Graph build_smollm3(const ModelShape& s, const spec::Flow& flow, std::int64_t loss_blocks) {
  return decoder(s, {.qkv_bias = s.attention_bias, .out_bias = s.attention_bias}, flow,
                 loss_blocks);
}

/// no_rope_layers has a 0 for every layer without rotary positions, in all models so far in every
/// no_rope_layer_interval-th.
void read_nope_layers(const ConfigJson& config, ModelShape& shape) {
  shape.nope_every = config.whole("no_rope_layer_interval", 4);
  if (!config.has("no_rope_layers")) return;
  const std::vector<std::int64_t> turns = config.wholes("no_rope_layers");
  if (std::ssize(turns) < shape.layers || shape.layers > LayerSet::kMost) {
    config.refuse("no_rope_layers",
                  "it has a number for each of num_hidden_layers, and cleave reads at most 256");
  }
  const auto fits = [&](std::int64_t every) {
    for (std::int64_t i = 0; i < shape.layers; ++i) {
      if ((turns[i] != 0) != (every == 0 || (i + 1) % every != 0)) return false;
    }
    return true;
  };
  for (shape.nope_every = 0; shape.nope_every <= shape.layers; ++shape.nope_every)
    if (fits(shape.nope_every)) return;
  shape.nope_every = 0;
  for (std::int64_t i = 0; i < shape.layers; ++i)
    if (turns[i] == 0) shape.nope_layers.push_back(i);
}

void read_smollm3(const ConfigJson& config, ModelShape& shape) {
  read_decoder(config,
               {.rope_theta = 2000000, .tie_embeddings = true, .kv_heads = 4, .pad_token = 128004},
               shape);
  shape.attention_bias = config.truth("attention_bias", false);
  shape.mlp_bias = config.truth("mlp_bias", false);
  read_nope_layers(config, shape);
  config.whole("max_window_layers", 0);  // which nothing reads
  config.whole("sliding_window", 0);
  if (config.truth("use_sliding_window", false)) read_window(config, shape);
  if (shape.window > 0 && !config.has("layer_types")) {
    // Layers without positions have the window then.
    if (shape.layers > LayerSet::kMost)
      config.refuse("use_sliding_window", "cleave reads at most 256 layers of such a model");
    std::vector<bool> windowed;
    for (std::int64_t i = 0; i < shape.layers; ++i) windowed.push_back(!shape.has_rope(i));
    const bool some = std::ranges::find(windowed, true) != windowed.end();
    if (!some) shape.window = 0;
    if (some) set_window_layers(windowed, shape);
  }
  read_layer_types(config, shape);
}

void write_smollm3(const ModelShape& shape, ConfigJsonText& config) {
  write_decoder(shape, config);
  config.set("attention_bias", shape.attention_bias);
  config.set("mlp_bias", shape.mlp_bias);
  std::vector<std::int64_t> turns;
  for (std::int64_t i = 0; i < shape.layers; ++i) turns.push_back(shape.has_rope(i));
  config.set("no_rope_layers", turns);
  if (shape.nope_every > 0) config.set("no_rope_layer_interval", shape.nope_every);
  config.set("use_sliding_window", shape.window > 0);
  write_window(shape, config);
  write_layer_types(shape, config);
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
                                  .hugging_face = &kSmollm3Names,
                                  .unread = kUnreadByDecoders};

}  // namespace cleave::model
