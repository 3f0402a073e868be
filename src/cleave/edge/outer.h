#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cleave::edge {

/// Numbers of the rule by which the weights of all follow the updates of clients.
struct OuterHyper {
  double lr = 1;
  double momentum = 0;
  double beta2 = 0;    ///< decay of the mean of squares
  double epsilon = 0;  ///< added to its root

  friend bool operator==(const OuterHyper&, const OuterHyper&) = default;
};

/// The elements of a tensor that one call updates; all spans have one length.
struct OuterRun {
  std::span<float> weights;
  /// The clients' together: where they went, less where they began.
  std::span<const double> update;
  std::span<float> momentum;  ///< empty where the rule keeps none
  std::span<float> squares;   ///< empty where the rule keeps none
};

/// How updates of clients are put together, and what the weights of all make of it: a row of a
/// table. Everything is element by element, in f64 and rounded once.
struct OuterKind {
  std::string_view name;
  bool robust = false;    ///< looks at every client's update, instead of at their weighted mean
  bool momentum = false;  ///< keeps a running mean
  bool squares = false;   ///< keeps a mean of squares
  OuterHyper usual;       ///< where the config says nothing
  /// A robust rule: what it makes of an element's values when `faulty` clients may send anything;
  /// reorders them. Null: it follows the update of one client, nearest_of().
  double (*middle)(std::span<float> values, std::size_t faulty) = nullptr;
  /// … and the fewest clients for which that says anything.
  std::size_t (*fewest)(std::size_t faulty) = nullptr;
  void (*update)(const OuterRun& run, const OuterHyper& hyper) = nullptr;
};

/// All of them: mean (FedAvg), momentum (FedAvgM), nesterov (DiLoCo), adam (FedAdam), yogi
/// (FedYogi), median, trimmed mean, krum.
std::span<const OuterKind> outer_kinds();

/// Null if there is none of that name.
const OuterKind* find_outer(std::string_view name);

// These three count what is no number as infinitely large, or far.

/// The middle of the values, or the mean of the two in the middle; reorders them.
double median_of(std::span<float> values);

/// The mean without the `faulty` smallest and largest; reorders the values.
double trimmed_mean_of(std::span<float> values, std::size_t faulty);

/// Krum (Blanchard et al., 2017): the client whose n - faulty - 2 nearest others are nearest, of
/// those that are equal the first. `squares` [n · n]: squared distances of their updates, to which
/// the order of clients makes no difference but that.
std::size_t nearest_of(std::span<const double> squares, std::size_t clients, std::size_t faulty);

}  // namespace cleave::edge
