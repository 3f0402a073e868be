#include <array>

#include "cleave/train/config/config_image_keys.h"
#include "cleave/train/config/config_rules.h"
#include "cleave/train/config/config_sections.h"
#include "cleave/train/config/rate_curve.h"

namespace cleave::train {
namespace {

using namespace rules;  // NOLINT(google-build-using-namespace): one table, one vocabulary

bool set_betas(Config& config, const Value& value) {
  const auto* list = as<Value::List>(value);
  if (list == nullptr || list->size() != 2) return false;
  std::array<double, 2> betas{};
  for (int i = 0; i < 2; ++i) {
    const auto beta = as_number((*list)[i]);
    if (!beta || *beta < 0 || *beta >= 1) return false;
    betas[i] = *beta;
  }
  config.train.betas = betas;
  return true;
}

std::optional<Value> get_betas(const Config& config) {
  Value::List list;
  for (double beta : config.train.betas) list.push_back({beta});
  return Value{std::move(list)};
}

bool set_momentum(Config& config, const Value& value) {
  const auto momentum = as_number(value);
  if (!momentum || *momentum < 0 || *momentum >= 1) return false;
  config.train.momentum = *momentum;
  return true;
}

std::optional<Value> get_momentum(const Config& config) {
  if (!config.train.momentum) return std::nullopt;
  return Value{*config.train.momentum};
}

bool set_curve(Config& config, const Value& value) {
  const auto* name = as<std::string>(value);
  if (name == nullptr || find_curve(*name) == nullptr) return false;
  config.train.schedule = *name;
  return true;
}

std::string curve_rule() {
  std::string rule = "one of";
  for (const RateCurve& curve : rate_curves())
    rule += detail::concat(rule.ends_with("of") ? " \"" : ", \"", curve.name, "\"");
  return rule;
}

bool set_rates(Config& config, const Value& value) {
  const auto* list = as<Value::List>(value);
  if (list == nullptr || list->empty()) return false;
  std::vector<RatePoint> points;
  for (const Value& element : *list) {
    const auto* pair = as<Value::List>(element);
    if (pair == nullptr || pair->size() != 2) return false;
    const auto* step = as<std::int64_t>((*pair)[0]);
    const auto rate = as_number((*pair)[1]);
    const std::int64_t last = points.empty() ? 0 : points.back().step;
    if (step == nullptr || *step <= last || !rate || *rate < 0) return false;
    points.push_back({*step, *rate});
  }
  config.train.rates = std::move(points);
  return true;
}

std::optional<Value> get_rates(const Config& config) {
  if (config.train.rates.empty()) return std::nullopt;
  Value::List list;
  for (const RatePoint& point : config.train.rates)
    list.push_back(Value{Value::List{Value{point.step}, Value{point.rate}}});
  return Value{std::move(list)};
}

}  // namespace

std::vector<Key> train_keys() {
  return {
      whole(
          "train.steps", {0}, "optimizer updates", [](auto& c) -> auto& { return c.train.steps; })
          .with({.example = "1000"}),
      whole(
          "train.batch", {1}, "sequences or images per step, all devices together",
          [](auto& c) -> auto& { return c.train.batch; })
          .with({.example = "64"}),
      whole_or_auto(
          "train.microbatch", {1}, "sequences or images that flow through the pipeline together",
          [](auto& c) -> auto& { return c.train.microbatch; })
          .with({.example = "\"auto\""}),
      of_tokens(
          whole(
              "train.sequence", {1}, "tokens per sequence",
              [](auto& c) -> auto& { return c.train.sequence; })
              .with({.otherwise = "256, or model.context if that is shorter", .example = "512"})),
      choice<DType>(
          "train.dtype", {{"f32", DType::F32}, {"bf16", DType::BF16}},
          "number format of activations and weight copies",
          [](auto& c) -> auto& { return c.train.dtype; })
          .with({.example = "\"bf16\""}),
      whole(
          "train.loss_blocks", {1}, "pieces of the vocabulary in the loss; more: less memory",
          [](auto& c) -> auto& { return c.train.loss_blocks; }),
      text(
          "train.optimizer", "the name of an optimizer",
          "adamw, sgd, lion, or muon (for the matrices of the blocks; adamw for the rest)",
          [](auto& c) -> auto& { return c.train.optimizer; }),
      {.name = "train.schedule",
       .rule = curve_rule(),
       .help = "how the learning rate falls after warmup; wsd: in the last train.decay steps",
       .set = set_curve,
       .get = [](const Config& c) -> std::optional<Value> { return Value{c.train.schedule}; }},
      number(
          "train.lr", "a number > 0", above_zero, "highest learning rate",
          [](auto& c) -> auto& { return c.train.lr; }),
      number(
          "train.min_lr", "a number ≥ 0", not_negative, "learning rate at the last step",
          [](auto& c) -> auto& { return c.train.min_lr; })
          .with({.otherwise = "train.lr / 10", .example = "3e-5"}),
      whole(
          "train.warmup", {0}, "steps to reach lr", [](auto& c) -> auto& { return c.train.warmup; })
          .with({.otherwise = "a tenth of train.steps, at most 100", .example = "20"}),
      whole(
          "train.decay", {1}, "steps at the end in which wsd falls",
          [](auto& c) -> auto& { return c.train.decay; })
          .with({.otherwise = "a fifth of train.steps", .example = "200"}),
      {.name = "train.rates",
       .rule = "a list such as [[1, 1e-5], [100, 3e-4], [1000, 0.0]], steps ascending from 1",
       .help = "learning rates of some steps, with straight lines between them; in place of lr, "
               "min_lr, warmup and schedule",
       .set = set_rates,
       .get = get_rates,
       .otherwise = "none",
       .example = "[[1, 1e-5], [100, 3e-4], [1000, 0.0]]"},
      {.name = "train.betas",
       .rule = "a list of two numbers from 0 to below 1",
       .help = "decay of the running means of adamw, lion and muon",
       .set = set_betas,
       .get = get_betas},
      {.name = "train.momentum",
       .rule = "a number from 0 to below 1",
       .help = "of sgd, where 0 keeps none, and of muon",
       .set = set_momentum,
       .get = get_momentum,
       .otherwise = "0.9 for sgd, 0.95 for muon",
       .example = "0.9"},
      number(
          "train.weight_decay", "a number ≥ 0", not_negative, "on matrices only",
          [](auto& c) -> auto& { return c.train.weight_decay; }),
      number(
          "train.clip", "a number ≥ 0", not_negative,
          "largest global gradient norm; 0: no clipping",
          [](auto& c) -> auto& { return c.train.clip; }),
      whole(
          "train.skip_nonfinite", {0},
          "steps with a loss or gradient that is no number that are left out before the run ends",
          [](auto& c) -> auto& { return c.train.skip_nonfinite; }),
      whole(
          "train.seed", {0}, "decides weights and data order",
          [](auto& c) -> auto& { return c.train.seed; }),
      whole(
          "train.eval_every", {0}, "steps between validations; 0: only at the end",
          [](auto& c) -> auto& { return c.train.eval_every; })
          .with({.example = "100"}),
      whole(
          "train.checkpoint_every", {0}, "steps between checkpoints; 0: only at the end",
          [](auto& c) -> auto& { return c.train.checkpoint_every; })
          .with({.otherwise = "a tenth of train.steps, from 25 to 250", .example = "500"}),
      whole(
          "train.keep", {1}, "checkpoints kept", [](auto& c) -> auto& { return c.train.keep; }),
      boolean(
          "train.elastic", "with cleave serve: go on without lost devices, and with new ones",
          [](auto& c) -> auto& { return c.train.elastic; }),
      whole(
          "train.copies", {0, 2},
          "with cleave serve: how many other devices hold each one's state, so that as many may be "
          "lost without going back to a checkpoint",
          [](auto& c) -> auto& { return c.train.copies; })
          .with({.example = "1"}),
      text(
          "train.out", "a path", "directory for checkpoints, log and config",
          [](auto& c) -> auto& { return c.train.out; })
          .with({.example = "\"runs/first\""}),
  };
}

}  // namespace cleave::train
