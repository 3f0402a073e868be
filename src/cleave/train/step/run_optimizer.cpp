#include "cleave/train/step/run_optimizer.h"

#include <algorithm>
#include <iterator>
#include <list>
#include <mutex>

#include "cleave/base/check.h"
#include "cleave/train/config/config_schema.h"
#include "cleave/train/step/learning_rate.h"
#include "cleave/train/step/round_slots.h"

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

/// The optimizer with the slots of rounds after its own. Kinds live as long as the program: steps
/// that were compiled for one refer to it. There is one for each set of slots, however often a run
/// is planned anew with more absences.
const engine::OptimizerKind& with_round_slots(const engine::OptimizerKind& inner,
                                              const EdgeConfig& edge, Clients clients) {
  struct Known {
    std::vector<std::string> slots;  ///< beside an optimizer's single slot
    Clients clients;
    engine::OptimizerKind kind;
  };
  static std::mutex mutex;
  static std::list<Known> known;
  const std::vector<std::string> added = round_slots(edge, clients, {"slot"});
  const std::lock_guard lock(mutex);
  for (const Known& other : known)
    if (other.slots == added && other.clients == clients && other.kind.name == inner.name)
      return other.kind;
  engine::OptimizerKind kind = inner;
  kind.slots = [&inner, edge, clients](const ParameterSpec& parameter, const engine::Hyper& hyper) {
    std::vector<std::string> slots;
    if (clients != Clients::Served) slots = inner.slots(parameter, hyper);
    std::ranges::move(round_slots(edge, clients, slots), std::back_inserter(slots));
    return slots;
  };
  return known.emplace_back(Known{added, clients, std::move(kind)}).kind;
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
  if (!config.edge.averages()) return chosen;
  return with_round_slots(chosen, config.edge,
                          owners_are_apart(config) ? Clients::Apart : Clients::InTurn);
}

const engine::OptimizerKind& server_optimizer(const Config& config) {
  return with_round_slots(engine::find_optimizer(config.train.optimizer), config.edge,
                          Clients::Served);
}

void RunOptimizer::begin_step(std::int64_t step, std::int64_t taken, std::int64_t shared) {
  taken_ = taken;
  taken_of_shared_ = shared;
  at_.lr = learning_rate(train_, step);
}

void RunOptimizer::update(ops::Compute& compute, const engine::ParameterState& parameter,
                          double gradient_scale) {
  const bool shared = !shared_.empty() && shared_.contains(parameter.spec->name);
  at_.step = shared ? taken_of_shared_ : taken_;
  at_.gradient_scale = gradient_scale;
  if (strength_ > 0 && !shared) {
    float* gradient = parameter.gradient.as<float>();
    const float* weights = parameter.master.as<float>();
    const float* anchor = parameter.slot(anchor_).as<float>();
    const auto strength = static_cast<float>(strength_ / gradient_scale);
    for (std::int64_t i = 0; i < parameter.elements(); ++i)
      gradient[i] += strength * (weights[i] - anchor[i]);
  }
  kind_->update(compute, parameter, at_);
}

}  // namespace cleave::train
