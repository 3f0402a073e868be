#include "cleave/edge/outer.h"

#include <algorithm>
#include <cmath>

#include "cleave/base/check.h"

namespace cleave::edge {
namespace {

void follow(const OuterRun& run, const OuterHyper& hyper) {
  for (std::size_t i = 0; i < run.weights.size(); ++i)
    run.weights[i] = static_cast<float>(run.weights[i] + hyper.lr * run.update[i]);
}

void follow_momentum(const OuterRun& run, const OuterHyper& hyper) {
  for (std::size_t i = 0; i < run.weights.size(); ++i) {
    const double m = hyper.momentum * run.momentum[i] + run.update[i];
    run.momentum[i] = static_cast<float>(m);
    run.weights[i] = static_cast<float>(run.weights[i] + hyper.lr * m);
  }
}

/// As torch.optim.SGD(nesterov=True) computes it, whose gradient is the update with its sign
/// turned.
void follow_nesterov(const OuterRun& run, const OuterHyper& hyper) {
  for (std::size_t i = 0; i < run.weights.size(); ++i) {
    const double m = hyper.momentum * run.momentum[i] + run.update[i];
    run.momentum[i] = static_cast<float>(m);
    run.weights[i] =
        static_cast<float>(run.weights[i] + hyper.lr * (run.update[i] + hyper.momentum * m));
  }
}

/// Reddi et al., 2021, algorithm 2: without a correction for the first rounds. `next` gives the
/// mean of squares from what it was and the square of the update.
template <class Next>
void follow_adaptive(const OuterRun& run, const OuterHyper& hyper, Next next) {
  for (std::size_t i = 0; i < run.weights.size(); ++i) {
    const double d = run.update[i];
    const double m = hyper.momentum * run.momentum[i] + (1 - hyper.momentum) * d;
    const double v = next(static_cast<double>(run.squares[i]), d * d);
    run.momentum[i] = static_cast<float>(m);
    run.squares[i] = static_cast<float>(v);
    run.weights[i] =
        static_cast<float>(run.weights[i] + hyper.lr * m / (std::sqrt(v) + hyper.epsilon));
  }
}

void follow_adam(const OuterRun& run, const OuterHyper& hyper) {
  follow_adaptive(run, hyper, [&](double v, double square) {
    return hyper.beta2 * v + (1 - hyper.beta2) * square;
  });
}

void follow_yogi(const OuterRun& run, const OuterHyper& hyper) {
  follow_adaptive(run, hyper, [&](double v, double square) {
    const double change = (1 - hyper.beta2) * square;
    return v < square ? v + change : v > square ? v - change : v;
  });
}

// clang-format off
constexpr OuterKind kKinds[] = {
    {.name = "mean", .usual = {.lr = 1}, .update = follow},
    {.name = "momentum", .momentum = true, .usual = {.lr = 1, .momentum = 0.9},
     .update = follow_momentum},
    {.name = "nesterov", .momentum = true, .usual = {.lr = 0.7, .momentum = 0.9},
     .update = follow_nesterov},
    {.name = "adam", .momentum = true, .squares = true,
     .usual = {.lr = 0.01, .momentum = 0.9, .beta2 = 0.99, .epsilon = 1e-3}, .update = follow_adam},
    {.name = "yogi", .momentum = true, .squares = true,
     .usual = {.lr = 0.01, .momentum = 0.9, .beta2 = 0.99, .epsilon = 1e-3}, .update = follow_yogi},
    {.name = "median", .median = true, .usual = {.lr = 1}, .update = follow},
};
// clang-format on

}  // namespace

std::span<const OuterKind> outer_kinds() {
  return kKinds;
}

const OuterKind* find_outer(std::string_view name) {
  const auto* const found = std::ranges::find(kKinds, name, &OuterKind::name);
  return found == std::end(kKinds) ? nullptr : found;
}

double median_of(std::span<float> values) {
  CLEAVE_CHECK(!values.empty(), "a median of nothing");
  const std::size_t middle = values.size() / 2;
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(middle));
  const double upper = values[middle];
  if (values.size() % 2 == 1) return upper;
  const double lower =
      *std::max_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(middle));
  return (lower + upper) / 2;
}

}  // namespace cleave::edge
