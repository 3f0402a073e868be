#include "cleave/base/tensor_sum.h"

#include <cstring>

#include "cleave/base/check.h"

namespace cleave {
namespace {

std::uint64_t mix(std::uint64_t x) {
  x ^= x >> 30;
  x *= 0xBF58476D1CE4E5B9;
  x ^= x >> 27;
  x *= 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

}  // namespace

std::uint64_t tensor_sum(std::span<const std::byte> elements, std::int64_t first) {
  CLEAVE_CHECK(elements.size() % 4 == 0, elements.size());
  std::uint64_t sum = 0;
  std::uint64_t index = static_cast<std::uint64_t>(first) + 1;  // mix(0) would be 0
  for (std::size_t at = 0; at < elements.size(); at += 4, ++index) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, elements.data() + at, 4);
    sum += mix(bits ^ (index * 0x9E3779B97F4A7C15));
  }
  return sum;
}

}  // namespace cleave
