#pragma once

#include <algorithm>
#include <numbers>

#include "cleave/base/elementary.h"
#include "cleave/train/config/config.h"

namespace cleave::train {

/// The rate of `step`, counted from 0: up in a straight line to lr over `warmup` steps (the last of
/// them has lr), then down half a cosine to min_lr, which the last step has.
inline double learning_rate(const TrainConfig& train, std::int64_t step) {
  if (step < train.warmup) {
    return train.lr * static_cast<double>(step + 1) / static_cast<double>(train.warmup);
  }
  const auto length = static_cast<double>(std::max<std::int64_t>(train.steps - train.warmup, 1));
  const double passed = std::min(static_cast<double>(step - train.warmup + 1) / length, 1.0);
  const double cosine = sine_cosine(std::numbers::pi * passed).cosine;
  return train.min_lr + (train.lr - train.min_lr) * 0.5 * (1.0 + cosine);
}

}  // namespace cleave::train
