#include "cleave/train/config/rate_curve.h"

#include <algorithm>
#include <array>
#include <numbers>

#include "cleave/base/elementary.h"

namespace cleave::train {
namespace {

double half_cosine(const RatePosition& at) {
  return 0.5 * (1.0 + sine_cosine(std::numbers::pi * (at.done / at.of)).cosine);
}

double straight(const RatePosition& at) {
  return 1.0 - at.done / at.of;
}

double level(const RatePosition&) {
  return 1.0;
}

/// Warmup, stable, decay (Hu et al., 2024).
double level_then_straight(const RatePosition& at) {
  return std::min(1.0, (at.of - at.done) / at.decay);
}

constexpr std::array kCurves = {
    RateCurve{"cosine", "half a cosine to min_lr", half_cosine},
    RateCurve{"linear", "a straight line to min_lr", straight},
    RateCurve{"constant", "lr to the end", level},
    RateCurve{"wsd", "lr, then a straight line to min_lr over train.decay steps",
              level_then_straight},
};

}  // namespace

std::span<const RateCurve> rate_curves() {
  return kCurves;
}

const RateCurve* find_curve(std::string_view name) {
  const auto found = std::ranges::find(kCurves, name, &RateCurve::name);
  return found == kCurves.end() ? nullptr : &*found;
}

}  // namespace cleave::train
