#include "cleave/secure/noise.h"

#include <algorithm>
#include <cmath>

#include "cleave/base/elementary.h"

namespace cleave::secure {
namespace {

/// In (0, 1).
double uniform(std::uint64_t word) {
  return (static_cast<double>(word >> 12) + 0.5) / 0x1p52;
}

}  // namespace

void fill_noise(const Bytes32& key, std::uint64_t first, std::span<double> numbers) {
  constexpr double kTurn = 6.28318530717958647692;
  std::array<std::uint64_t, 512> words;  // two for each number, by Box and Muller
  for (std::size_t done = 0; done < numbers.size(); done += words.size() / 2) {
    const std::size_t count = std::min(words.size() / 2, numbers.size() - done);
    fill_stream(key, 2 * (first + done), std::span(words).first(2 * count));
    for (std::size_t i = 0; i < count; ++i)
      numbers[done + i] = std::sqrt(-2 * natural_log(uniform(words[2 * i]))) *
                          sine_cosine(kTurn * uniform(words[2 * i + 1])).cosine;
  }
}

}  // namespace cleave::secure
