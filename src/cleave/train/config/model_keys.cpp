#include <algorithm>

#include "cleave/train/config/config_forms.h"
#include "cleave/train/config/config_image_keys.h"
#include "cleave/train/config/config_rules.h"
#include "cleave/train/config/config_sections.h"
#include "cleave/train/config/rope_form.h"

namespace cleave::train {
namespace {

using namespace rules;  // NOLINT(google-build-using-namespace): one table, one vocabulary

// Families are looked up every time: a program may add some of its own.
bool set_family(Config& config, const Value& value) {
  const auto* name = as<std::string>(value);
  const auto known = model::families();
  const auto found =
      name == nullptr ? known.end() : std::ranges::find(known, *name, &model::Family::name);
  if (found == known.end()) return false;
  config.model.kind = *found;
  return true;
}

std::optional<Value> get_family(const Config& config) {
  return Value{std::string(config.model.kind->name)};
}

std::string family_rule() {
  std::string rule;
  const auto known = model::families();
  for (std::size_t i = 0; i < known.size(); ++i) {
    if (i > 0) rule += i + 1 == known.size() ? " or " : ", ";
    rule += detail::concat('"', known[i]->name, '"');
  }
  return rule;
}

/// A set of layers.
template <class At>
Key layers(std::string_view name, std::string_view help, At at) {
  constexpr Whole kLayer{0, LayerSet::kMost - 1};
  const auto read = [=](const Value& value) -> std::optional<std::int64_t> {
    return kLayer.holds(value) ? std::optional(*as<std::int64_t>(value)) : std::nullopt;
  };
  return one_or_list(
      name, detail::concat("a layer from 0 to ", LayerSet::kMost - 1, ", or a list of them"), help,
      at, read, [](std::int64_t layer) { return Value{layer}; });
}

}  // namespace

std::vector<Key> model_keys() {
  const Whole any;  // check(ModelShape) knows more
  return {
      text(
          "model.preset", "the name of a preset", "a known shape; further keys override it",
          [](auto& c) -> auto& { return c.preset; })
          .with({.otherwise = "none", .example = "\"gpt2-124m\""}),
      text(
          "model.from", "the path of a Hugging Face directory",
          "begin with its weights; the keys of [model] follow from its config.json",
          [](auto& c) -> auto& { return c.from; })
          .with({.otherwise = "none; the model begins with random weights",
                 .example = "\"models/SmolLM2-135M\""}),
      {.name = "model.kind",
       .rule = family_rule(),
       .help = "the architecture",
       .set = set_family,
       .get = get_family,
       .example = "\"llama\""},
      whole(
          "model.layers", any, "transformer blocks",
          [](auto& c) -> auto& { return c.model.layers; })
          .with({.otherwise = "none; needed without model.preset or model.from", .example = "12"}),
      whole(
          "model.hidden", any, "width of the residual stream",
          [](auto& c) -> auto& { return c.model.hidden; })
          .with({.otherwise = "none; needed without model.preset or model.from", .example = "768"}),
      whole(
          "model.heads", any, "attention heads; must divide hidden, or have a head_dim",
          [](auto& c) -> auto& { return c.model.heads; })
          .with({.otherwise = "none; needed without model.preset or model.from", .example = "12"}),
      whole(
          "model.kv_heads", any, "key and value heads; must divide heads",
          [](auto& c) -> auto& { return c.model.kv_heads; })
          .with({.otherwise = "model.heads", .example = "4"}),
      whole(
          "model.ffn", any, "feed-forward width", [](auto& c) -> auto& { return c.model.ffn; })
          .with({.otherwise = "4·hidden (gpt), 8/3·hidden up to a multiple of 64 (others)",
                 .example = "3072"}),
      of_tokens(whole(
                    "model.vocab", any, "tokens that the model knows",
                    [](auto& c) -> auto& { return c.model.vocab; })
                    .with({.otherwise = "256, one per byte", .example = "50257"})),
      of_tokens(whole(
                    "model.context", any, "longest sequence",
                    [](auto& c) -> auto& { return c.model.context; })
                    .with({.otherwise = "train.sequence", .example = "1024"})),
      boolean(
          "model.tie_embeddings", "one matrix for embedding and head",
          [](auto& c) -> auto& { return c.model.tie_embeddings; })
          .with({.otherwise = "true (gpt, smollm3, gemma3), false (others)", .example = "false"}),
      number(
          "model.norm_eps", "a number > 0", above_zero, "added to the variance in norms",
          [](auto& c) -> auto& { return c.model.norm_eps; }),
      number(
          "model.rope_theta", "a number > 0", above_zero, "base of rotary positions (not gpt)",
          [](auto& c) -> auto& { return c.model.rope_theta; }),
      number(
          "model.local_rope_theta", "a number > 0", above_zero,
          "the same in layers with a window (gemma3)",
          [](auto& c) -> auto& { return c.model.local_rope_theta; }),
      {.name = "model.rope_scaling",
       .rule = rope_scaling_rule(),
       .help = "how rotary positions were stretched, with the numbers that config.json has for it",
       .set = set_rope_scaling,
       .get = get_rope_scaling,
       .otherwise = "none",
       .example = "\"llama3,factor=8,original_context=8192\""},
      of_tokens(whole(
                    "model.pad_token", {-1},
                    "token whose embedding learns nothing by being read, as that of padding in "
                    "PyTorch; -1: none",
                    [](auto& c) -> auto& { return c.model.pad_token; })
                    .with({.example = "0"})),
      whole(
          "model.head_dim", {0}, "width of a head; 0: hidden / heads",
          [](auto& c) -> auto& { return c.model.head_dim; }),
      whole(
          "model.rotary_dim", {0}, "elements of a head that rotary positions turn; 0: all",
          [](auto& c) -> auto& { return c.model.rotary_dim; }),
      number(
          "model.attention_scale", "a number ≥ 0", not_negative,
          "of the products of queries and keys; 0: 1/√head_dim",
          [](auto& c) -> auto& { return c.model.attention_scale; }),
      whole(
          "model.window", {0}, "tokens that a token sees in layers with a window; 0: all",
          [](auto& c) -> auto& { return c.model.window; })
          .with({.example = "4096"}),
      whole(
          "model.window_from", {0}, "first layer with a window",
          [](auto& c) -> auto& { return c.model.window_from; }),
      whole(
          "model.full_every", {0}, "every n-th layer has no window all the same; 0: none",
          [](auto& c) -> auto& { return c.model.full_every; }),
      layers(
          "model.full_layers", "layers that have no window either, counted from 0",
          [](auto& c) -> auto& { return c.model.full_layers; })
          .with({.otherwise = "none", .example = "[0, 5, 11]"}),
      whole(
          "model.nope_every", {0}, "every n-th layer has no rotary positions; 0: all have them",
          [](auto& c) -> auto& { return c.model.nope_every; }),
      layers(
          "model.nope_layers", "layers that have no rotary positions either, counted from 0",
          [](auto& c) -> auto& { return c.model.nope_layers; })
          .with({.otherwise = "none", .example = "[3, 4]"}),
      boolean(
          "model.attention_bias", "biases of the projections around attention",
          [](auto& c) -> auto& { return c.model.attention_bias; }),
      boolean(
          "model.mlp_bias", "biases of the projections of the feed-forward part",
          [](auto& c) -> auto& { return c.model.mlp_bias; }),
      one_or_list(
          "model.train",
          "modules or patterns of parameter names, such as [\"h.3\", \"ln_*.weight\", \"lm_head\"]",
          "what learns; all else keeps its values and needs no gradient",
          [](auto& c) -> auto& { return c.trained; }, read_name,
          [](const std::string& name) { return Value{name}; })
          .with({.otherwise = "all parameters", .example = "[\"h.3\", \"lm_head\"]"}),
      choice<bool>(
          "model.frozen_embedding", {{"full", false}, {"int8", true}},
          "a table of tokens that does not learn: in the format of the run, or in bytes with a "
          "scale for every 64",
          [](auto& c) -> auto& { return c.packs_embedding; })
          .with({.example = "\"int8\""}),
  };
}

}  // namespace cleave::train
