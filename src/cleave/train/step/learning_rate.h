#pragma once

#include <algorithm>
#include <iterator>
#include <span>

#include "cleave/base/check.h"
#include "cleave/train/config/config.h"
#include "cleave/train/config/rate_curve.h"

namespace cleave::train {

/// The rate of `step`, counted from 0, on the straight lines between points: level before the first
/// and after the last.
inline double rate_between(std::span<const RatePoint> points, std::int64_t step) {
  const auto next = std::ranges::upper_bound(points, step + 1, {}, &RatePoint::step);
  if (next == points.begin()) return next->rate;
  const RatePoint& before = *std::prev(next);
  if (next == points.end()) return before.rate;
  const double share =
      static_cast<double>(step + 1 - before.step) / static_cast<double>(next->step - before.step);
  return before.rate + (next->rate - before.rate) * share;
}

/// The rate of `step`, counted from 0: by train.rates if there are any; otherwise up in a straight
/// line to lr over `warmup` steps (the last of them has lr), then down to min_lr, which the last
/// step has, along the curve train.schedule.
inline double learning_rate(const TrainConfig& train, std::int64_t step) {
  if (!train.rates.empty()) return rate_between(train.rates, step);
  if (step < train.warmup) {
    return train.lr * static_cast<double>(step + 1) / static_cast<double>(train.warmup);
  }
  const RateCurve* curve = find_curve(train.schedule);
  CLEAVE_CHECK(curve != nullptr, train.schedule, " is no schedule of the learning rate");
  const auto of = static_cast<double>(std::max<std::int64_t>(train.steps - train.warmup, 1));
  const double height =
      curve->height({.done = std::min(static_cast<double>(step - train.warmup + 1), of),
                     .of = of,
                     .decay = static_cast<double>(train.decay)});
  return train.min_lr + (train.lr - train.min_lr) * height;
}

}  // namespace cleave::train
