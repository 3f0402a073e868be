#include "cleave/model/decoder_config.h"

#include <algorithm>

#include "cleave/base/elementary.h"

namespace cleave::model {
namespace {

using Kind = RopeScaling::Kind;

constexpr std::string_view kWindowed = "sliding_attention";
constexpr std::string_view kFull = "full_attention";

struct RopeType {
  std::string_view name;
  Kind kind;
};
constexpr RopeType kRopeTypes[] = {{"default", Kind::None},
                                   {"linear", Kind::Linear},
                                   {"dynamic", Kind::Dynamic},
                                   {"llama3", Kind::Llama3},
                                   {"yarn", Kind::Yarn}};

/// The factor by which YaRN lets turned elements grow when it stretches by `factor`.
double yarn_magnitude(double factor, double mscale) {
  return factor <= 1 ? 1 : 0.1 * mscale * natural_log(factor) + 1;
}

double attention_factor(const ConfigJson& rope, double factor) {
  const double mscale = rope.number("mscale", 0);
  const double all_dim = rope.number("mscale_all_dim", 0);
  if (rope.has("attention_factor")) return rope.number("attention_factor");
  if (mscale != 0 && all_dim != 0)
    return yarn_magnitude(factor, mscale) / yarn_magnitude(factor, all_dim);
  return yarn_magnitude(factor, 1);
}

/// Either rope_theta beside rope_scaling, or rope_parameters with both.
void read_rope(const ConfigJson& config, const DecoderDefaults& defaults, ModelShape& shape) {
  shape.rope_theta = config.number("rope_theta", defaults.rope_theta);
  double share = config.number("partial_rotary_factor", 1);
  bool inside = false;                                   // of the table of rotary positions
  config.number("original_max_position_embeddings", 0);  // which only a scaling reads
  std::optional<ConfigJson> rope = config.table("rope_scaling");
  const std::optional<ConfigJson> newer = config.table("rope_parameters");
  if (!rope) rope = newer;
  if (rope) {
    shape.rope_theta = rope->number("rope_theta", shape.rope_theta);
    inside = rope->has("partial_rotary_factor");
    share = rope->number("partial_rotary_factor", share);
    shape.rope_scaling = read_rope_scaling(config, *rope, static_cast<double>(shape.context));
    rope->finish();
  }
  if (share == 1) return;
  // Others write the key at times, and transformers computes without it.
  if (!defaults.partial_rotary)
    (inside ? *rope : config).refuse("partial_rotary_factor", "all of a head turns in this family");
  if (!(share > 0 && share <= 1))
    (inside ? *rope : config)
        .refuse("partial_rotary_factor", "it is the share of a head that turns");
  shape.rotary_dim = static_cast<std::int64_t>(static_cast<double>(shape.head_size()) * share);
  if (shape.rotary_dim < 2 || shape.rotary_dim > shape.head_size())
    config.refuse("partial_rotary_factor", "at least one pair of a head must turn");
  if (shape.rotary_dim % 2 != 0)
    (inside ? *rope : config).refuse("partial_rotary_factor", "elements of a head turn in pairs");
}

/// A number below 0 counts from the end of the vocabulary, as for every index there.
std::int64_t read_pad_token(const ConfigJson& config, std::int64_t otherwise, std::int64_t vocab) {
  if (!config.mentions("pad_token_id")) return otherwise < vocab ? otherwise : -1;
  if (!config.has("pad_token_id")) return -1;
  const std::int64_t given = config.whole("pad_token_id");
  const std::int64_t token = given < 0 ? given + vocab : given;
  if (token < 0 || token >= vocab)
    config.refuse("pad_token_id", "it must be a token of the vocabulary");
  return token;
}

}  // namespace

// The context before the scaling may stand in either.
RopeScaling read_rope_scaling(const ConfigJson& config, const ConfigJson& rope, double context) {
  const std::string type = rope.text("rope_type", rope.text("type", "default"));
  const auto* found = std::ranges::find(kRopeTypes, type, &RopeType::name);
  if (found == std::end(kRopeTypes)) {
    rope.refuse(rope.has("rope_type") ? "rope_type" : "type",
                "cleave has default, linear, dynamic, llama3 and yarn");
  }
  RopeScaling scaling{.kind = found->kind};
  const double own = rope.number("original_max_position_embeddings", context);
  const double original = config.number("original_max_position_embeddings", own);
  if (scaling.kind == Kind::Yarn && !rope.has("factor")) {
    scaling.factor = context / original;
  } else if (scaling.kind != Kind::None) {
    scaling.factor = rope.number("factor");
  }
  if (scaling.kind == Kind::Llama3) {
    scaling.low_freq_factor = rope.number("low_freq_factor");
    scaling.high_freq_factor = rope.number("high_freq_factor");
    scaling.original_context = original;
  }
  if (scaling.kind == Kind::Yarn) {
    // A 0 counts as a missing number there, and a null in `truncate` as false.
    const double fast = rope.number("beta_fast", 0), slow = rope.number("beta_slow", 0);
    scaling.beta_fast = fast != 0 ? fast : 32;
    scaling.beta_slow = slow != 0 ? slow : 1;
    scaling.truncate = rope.truth("truncate", !rope.mentions("truncate"));
    scaling.original_context = original;
    scaling.attention_factor = attention_factor(rope, scaling.factor);
  }
  return scaling;
}

void write_rope(const ModelShape& shape, ConfigJsonText& config) {
  config.set("rope_theta", shape.rope_theta);
  if (shape.rotary_dim > 0) {
    config.set("partial_rotary_factor",
               static_cast<double>(shape.rotary_dim) / static_cast<double>(shape.head_size()));
  }
  const RopeScaling& scaling = shape.rope_scaling;
  if (scaling.kind == Kind::None) return;
  const auto* type = std::ranges::find(kRopeTypes, scaling.kind, &RopeType::kind);
  ConfigJsonText rope;
  rope.set("rope_type", std::string(type->name));
  rope.set("factor", scaling.factor);
  if (scaling.kind == Kind::Llama3) {
    rope.set("low_freq_factor", scaling.low_freq_factor);
    rope.set("high_freq_factor", scaling.high_freq_factor);
  }
  if (scaling.kind == Kind::Yarn) {
    rope.set("beta_fast", scaling.beta_fast);
    rope.set("beta_slow", scaling.beta_slow);
    rope.set("attention_factor", scaling.attention_factor);
    if (!scaling.truncate) rope.set("truncate", false);
  }
  if (scaling.original_context > 0) {
    rope.set("original_max_position_embeddings",
             static_cast<std::int64_t>(scaling.original_context));
  }
  config.set("rope_scaling", rope);
}

void read_decoder_sizes(const ConfigJson& config, const DecoderDefaults& defaults,
                        ModelShape& shape) {
  const auto size = [&](const char* key, std::int64_t ModelShape::*of) {
    return defaults.sizes == nullptr ? config.whole(key) : config.whole(key, defaults.sizes->*of);
  };
  shape.layers = size("num_hidden_layers", &ModelShape::layers);
  shape.hidden = size("hidden_size", &ModelShape::hidden);
  shape.heads = size("num_attention_heads", &ModelShape::heads);
  if (shape.heads < 1) config.refuse("num_attention_heads", "a layer has at least one head");
  // A null stands for as many as there are heads, a missing key for what the family has.
  const bool missing = defaults.kv_heads > 0 && !config.mentions("num_key_value_heads");
  shape.kv_heads = config.whole("num_key_value_heads", missing ? defaults.kv_heads : shape.heads);
  shape.head_dim = config.whole("head_dim", 0);
  if (config.has("head_dim") && shape.head_dim < 1)
    config.refuse("head_dim", "a head has at least one pair of elements");
  if (shape.heads > 0 && shape.head_dim * shape.heads == shape.hidden) shape.head_dim = 0;
  shape.ffn = size("intermediate_size", &ModelShape::ffn);
  shape.vocab = size("vocab_size", &ModelShape::vocab);
  shape.pad_token = read_pad_token(config, defaults.pad_token, shape.vocab);
  shape.context = size("max_position_embeddings", &ModelShape::context);
  shape.norm_eps = config.number("rms_norm_eps", defaults.norm_eps);
  shape.tie_embeddings = config.truth("tie_word_embeddings", defaults.tie_embeddings);
}

void read_decoder(const ConfigJson& config, const DecoderDefaults& defaults, ModelShape& shape) {
  read_decoder_sizes(config, defaults, shape);
  const std::string activation = config.text("hidden_act", "silu");
  if (activation != "silu" && activation != "swish")
    config.refuse("hidden_act", "cleave has \"silu\" in this family");
  read_rope(config, defaults, shape);
}

void write_decoder_sizes(const ModelShape& shape, ConfigJsonText& config) {
  config.set("num_hidden_layers", shape.layers);
  config.set("hidden_size", shape.hidden);
  config.set("num_attention_heads", shape.heads);
  config.set("num_key_value_heads", shape.kv_heads);
  config.set("head_dim", shape.head_size());
  config.set("intermediate_size", shape.ffn);
  config.set("vocab_size", shape.vocab);
  if (shape.pad_token >= 0) config.set("pad_token_id", shape.pad_token);
  config.set("max_position_embeddings", shape.context);
  config.set("rms_norm_eps", shape.norm_eps);
}

void write_decoder(const ModelShape& shape, ConfigJsonText& config) {
  write_decoder_sizes(shape, config);
  config.set("hidden_act", std::string("silu"));
  write_rope(shape, config);
}

void set_window_layers(const std::vector<bool>& windowed, ModelShape& shape) {
  ModelShape candidate = shape;
  candidate.full_layers = {};
  const auto first = std::ranges::find(windowed, true) - windowed.begin();
  for (const std::int64_t from : {shape.window_from, std::int64_t{0}, first}) {
    for (std::int64_t every = 0; every <= std::ssize(windowed); ++every) {
      candidate.window_from = from;
      candidate.full_every = every;
      std::int64_t layer = 0;
      if (!std::ranges::all_of(windowed,
                               [&](bool has) { return candidate.has_window(layer++) == has; }))
        continue;
      shape = candidate;
      return;
    }
  }
  candidate.window_from = candidate.full_every = 0;
  for (std::size_t i = 0; i < windowed.size(); ++i)
    if (!windowed[i]) candidate.full_layers.push_back(static_cast<std::int64_t>(i));
  shape = candidate;
}

void read_layer_types(const ConfigJson& config, ModelShape& shape) {
  if (!config.has("layer_types")) return;
  const std::vector<std::string> types = config.texts("layer_types");
  std::vector<bool> windowed;
  for (const std::string& type : types) {
    if (type != kWindowed && type != kFull)
      config.refuse("layer_types", "cleave has full_attention and sliding_attention");
    windowed.push_back(type == kWindowed);
  }
  if (std::ssize(types) != shape.layers)
    config.refuse("layer_types", "it has one for each of num_hidden_layers");
  if (std::ranges::find(windowed, true) == windowed.end()) {
    shape.window = shape.window_from = shape.full_every = 0;
    return;
  }
  if (shape.window == 0) config.refuse("layer_types", "the config gives these layers no window");
  if (shape.layers > LayerSet::kMost)
    config.refuse("layer_types", "cleave reads at most 256 of them");
  set_window_layers(windowed, shape);
}

void write_layer_types(const ModelShape& shape, ConfigJsonText& config) {
  std::vector<std::string> types;
  for (std::int64_t i = 0; i < shape.layers; ++i)
    types.emplace_back(shape.has_window(i) ? kWindowed : kFull);
  config.set("layer_types", types);
}

void read_window(const ConfigJson& config, ModelShape& shape) {
  shape.window = config.whole("sliding_window", 0);
  if (config.has("sliding_window") && shape.window < 1)
    config.refuse("sliding_window", "a token sees at least itself; null stands for all");
}

void write_window(const ModelShape& shape, ConfigJsonText& config) {
  if (shape.window > 0) {
    config.set("sliding_window", shape.window);
  } else {
    config.set_null("sliding_window");
  }
}

void read_late_windows(const ConfigJson& config, ModelShape& shape) {
  // A missing key stands for 4096, and null for no window.
  const std::int64_t window =
      config.mentions("sliding_window") ? config.whole("sliding_window", 0) : 4096;
  const std::int64_t from = config.whole("max_window_layers", 28);
  const bool listed = config.has("layer_types");
  if (config.truth("use_sliding_window", false) && (listed || from < shape.layers)) {
    read_window(config, shape);
    shape.window = window;
    shape.window_from = listed || window == 0 ? 0 : from;
  }
  read_layer_types(config, shape);
}

void write_late_windows(const ModelShape& shape, ConfigJsonText& config) {
  config.set("use_sliding_window", shape.window > 0);
  write_window(shape, config);
  config.set("max_window_layers", shape.window > 0 ? shape.window_from : shape.layers);
  write_layer_types(shape, config);
}

}  // namespace cleave::model
