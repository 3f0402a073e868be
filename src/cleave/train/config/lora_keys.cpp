#include <utility>

#include "cleave/train/config/config_forms.h"
#include "cleave/train/config/config_rules.h"
#include "cleave/train/config/config_sections.h"

namespace cleave::train {
namespace {

/// Says nothing of runs without adapters.
Key of_adapters(Key key) {
  key.get = [get = std::move(key.get)](const Config& config) -> std::optional<Value> {
    if (config.lora.rank == 0) return std::nullopt;
    return get(config);
  };
  return key;
}

}  // namespace

std::vector<Key> lora_keys() {
  using namespace rules;  // NOLINT(google-build-using-namespace): one table, one vocabulary
  return {
      of_adapters(
          whole(
              "lora.rank", {1},
              "rank of low-rank adapters; they alone learn then, beside what model.train names",
              [](auto& c) -> auto& { return c.lora.rank; })
              .with({.otherwise = "no adapters, or that of lora.from", .example = "8"})),
      of_adapters(number(
                      "lora.alpha", "a number > 0", [](double x) { return x > 0; },
                      "what adapters add counts alpha / rank times",
                      [](auto& c) -> auto& { return c.lora.alpha; })
                      .with({.otherwise = "lora.rank, or that of lora.from", .example = "16"})),
      of_adapters(one_or_list(
                      "lora.targets",
                      "\"all-linear\", or names or patterns of linear layers, such as [\"q_proj\", "
                      "\"h.*.c_fc\"]",
                      "the linear layers that have adapters",
                      [](auto& c) -> auto& { return c.lora.targets; }, read_name,
                      [](const std::string& name) { return Value{name}; })
                      .with({.otherwise = "\"all-linear\", or those of lora.from",
                             .example = "[\"q_proj\", \"v_proj\"]"})),
      of_adapters(boolean(
                      "lora.rslora", "divide by the root of the rank instead of the rank",
                      [](auto& c) -> auto& { return c.lora.rslora; })
                      .with({.otherwise = "false, or that of lora.from", .example = "true"})),
      of_adapters(text(
                      "lora.from",
                      "a directory with adapter_config.json and adapter_model.safetensors",
                      "adapters of PEFT to begin with", [](auto& c) -> auto& { return c.adapters; })
                      .with({.otherwise = "none: fresh ones", .example = "\"adapter\""})),
  };
}

}  // namespace cleave::train
