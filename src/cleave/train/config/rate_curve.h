#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace cleave::train {

/// Where in the steps that follow warmup a run is.
struct RatePosition {
  double done = 0;   ///< of these steps, this one included
  double of = 1;     ///< all of them
  double decay = 1;  ///< how many of the last ones fall, for curves that are level before
};

/// A course of the learning rate after warmup: one row of the table.
struct RateCurve {
  std::string_view name;
  std::string_view help;
  double (*height)(const RatePosition& at);  ///< 1: train.lr, 0: train.min_lr
};

std::span<const RateCurve> rate_curves();

/// Null if there is none of that name.
const RateCurve* find_curve(std::string_view name);

}  // namespace cleave::train
