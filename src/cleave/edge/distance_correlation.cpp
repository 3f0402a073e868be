#include "cleave/edge/distance_correlation.h"

#include <cmath>
#include <cstddef>
#include <vector>

#include "cleave/base/check.h"

namespace cleave::edge {
namespace {

/// Distances less what their row and their column have on average, with the divisors that make
/// products of them unbiased.
std::vector<double> centred_distances(std::span<const double> distances, std::size_t n) {
  std::vector<double> sums(n);
  double all = 0;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) sums[i] += distances[i * n + j];
    all += sums[i];
  }
  const auto count = static_cast<double>(n);
  std::vector<double> out(n * n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      if (i == j) continue;
      out[i * n + j] = distances[i * n + j] - sums[i] / (count - 2) - sums[j] / (count - 2) +
                       all / ((count - 1) * (count - 2));
    }
  }
  return out;
}

double sum_of_products(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace

double distance_correlation(std::span<const double> a, std::span<const double> b) {
  const auto n = static_cast<std::size_t>(std::llround(std::sqrt(static_cast<double>(a.size()))));
  CLEAVE_CHECK(n >= 4 && n * n == a.size() && a.size() == b.size(), a.size(), " and ", b.size(),
               " distances");
  const std::vector<double> of_a = centred_distances(a, n), of_b = centred_distances(b, n);
  const double scale = sum_of_products(of_a, of_a) * sum_of_products(of_b, of_b);
  const double shared = sum_of_products(of_a, of_b);
  if (!(scale > 0) || shared <= 0) return 0;
  return std::sqrt(shared / std::sqrt(scale));
}

}  // namespace cleave::edge
