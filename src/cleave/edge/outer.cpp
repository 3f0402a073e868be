#include "cleave/edge/outer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

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

/// What is no number has no place in an order, and one client's would unsettle that of all. It
/// counts as the largest, of which a robust rule leaves out as many as may lie.
template <class Number>
void place_last(std::span<Number> values) {
  for (Number& value : values)
    if (std::isnan(value)) value = std::numeric_limits<Number>::infinity();
}

double middle_of(std::span<float> values, std::size_t /*faulty*/) {
  return median_of(values);
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
    {.name = "median", .robust = true, .usual = {.lr = 1}, .middle = middle_of,
     .fewest = [](std::size_t) { return std::size_t{1}; }, .update = follow},
    {.name = "trimmed-mean", .robust = true, .usual = {.lr = 1}, .middle = trimmed_mean_of,
     .fewest = [](std::size_t faulty) { return 2 * faulty + 1; }, .update = follow},
    {.name = "krum", .robust = true, .usual = {.lr = 1},
     .fewest = [](std::size_t faulty) { return 2 * faulty + 3; }, .update = follow},
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

double trimmed_mean_of(std::span<float> values, std::size_t faulty) {
  CLEAVE_CHECK(values.size() > 2 * faulty, values.size(), " values without ", faulty, " twice");
  place_last(values);
  std::ranges::sort(values);
  const auto left = values.subspan(faulty, values.size() - 2 * faulty);
  double sum = 0;
  for (const float value : left) sum += value;
  return sum / static_cast<double>(left.size());
}

std::size_t nearest_of(std::span<const double> squares, std::size_t clients, std::size_t faulty) {
  CLEAVE_CHECK(clients >= faulty + 3, clients, " clients of whom ", faulty, " may send anything");
  std::size_t best = 0;
  double least = 0;
  std::vector<double> others;
  for (std::size_t client = 0; client < clients; ++client) {
    others.clear();
    for (std::size_t other = 0; other < clients; ++other)
      if (other != client) others.push_back(squares[client * clients + other]);
    place_last(std::span(others));
    std::ranges::sort(others);
    double score = 0;
    for (std::size_t i = 0; i < clients - faulty - 2; ++i) score += others[i];
    if (client > 0 && score >= least) continue;
    best = client;
    least = score;
  }
  return best;
}

double median_of(std::span<float> values) {
  CLEAVE_CHECK(!values.empty(), "a median of nothing");
  place_last(values);
  const std::size_t middle = values.size() / 2;
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(middle));
  const double upper = values[middle];
  if (values.size() % 2 == 1) return upper;
  const double lower =
      *std::max_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(middle));
  return (lower + upper) / 2;
}

}  // namespace cleave::edge
