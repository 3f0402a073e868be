#include "cleave/train/step/run_optimizer.h"

#include <algorithm>

#include "cleave/base/check.h"
#include "cleave/train/config/config_schema.h"
#include "cleave/train/step/learning_rate.h"

namespace cleave::train {

engine::Hyper hyper_of(const TrainConfig& train, const engine::OptimizerKind& kind) {
  return {.betas = train.betas,
          .momentum = train.momentum.value_or(kind.momentum),
          .weight_decay = train.weight_decay};
}

namespace {

std::string text_of(const std::optional<Value>& value) {
  return value ? to_toml(*value) : "";
}

}  // namespace

const engine::OptimizerKind& optimizer_of(const Config& config) {
  const engine::OptimizerKind& chosen = engine::find_optimizer(config.train.optimizer);
  const Config fresh;
  for (const engine::OptimizerKind& other : engine::optimizers()) {
    for (const std::string& name : other.keys) {
      if (std::ranges::find(chosen.keys, name) != chosen.keys.end()) continue;
      const Key& key = *std::ranges::find(config_keys(), name, &Key::name);
      const std::string value = text_of(key.get(config));
      require(value == text_of(key.get(fresh)), name, " is ", value, ", and train.optimizer ",
              chosen.name, " does not read it; leave it out, or use ", other.name);
    }
  }
  return chosen;
}

void RunOptimizer::begin_step(std::int64_t step) {
  at_.step = step;
  at_.lr = learning_rate(train_, step);
}

void RunOptimizer::update(ops::Compute& compute, const engine::ParameterState& parameter,
                          double gradient_scale) {
  at_.gradient_scale = gradient_scale;
  kind_->update(compute, parameter, at_);
}

}  // namespace cleave::train
