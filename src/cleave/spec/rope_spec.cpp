#include "cleave/spec/rope_spec.h"

#include "cleave/base/elementary.h"

namespace cleave {

std::vector<double> rope_frequencies(double theta, std::int64_t dims) {
  const double log_theta = natural_log(theta);
  const std::int64_t pairs = dims / 2;
  std::vector<double> frequencies;
  for (std::int64_t i = 0; i < pairs; ++i) {
    const double exponent = -static_cast<double>(i) / static_cast<double>(pairs);
    frequencies.push_back(exponential(log_theta * exponent));
  }
  return frequencies;
}

}  // namespace cleave
