#include "cleave/ops/packed_rows.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "cleave/base/check.h"
#include "cleave/spec/packed_rows.h"
#include "cleave/tensor/bf16.h"

namespace cleave::ops {
namespace {

constexpr float kMostLevel = 127;
constexpr std::size_t kBlock = kPackedBlock;

/// The smallest scale of 16 significant bits with which the largest number has a level.
float scale_of(std::span<const float> block) {
  float most = 0;
  for (const float value : block) {
    if (!std::isfinite(value)) return std::numeric_limits<float>::quiet_NaN();
    most = std::max(most, std::fabs(value));
  }
  const auto bits = std::bit_cast<std::uint32_t>(most / kMostLevel);
  return std::bit_cast<float>((bits + 0xff) & ~std::uint32_t{0xff});
}

std::int8_t level_of(float value, float scale) {
  return static_cast<std::int8_t>(
      std::clamp(std::nearbyint(value / scale), -kMostLevel, kMostLevel));
}

/// Calls visit(block, its first number, how many it has) on the blocks of a row.
template <class Visit>
void for_each_block(std::size_t count, const Visit& visit) {
  for (std::size_t first = 0; first < count; first += kBlock)
    visit(first / kBlock, first, std::min(kBlock, count - first));
}

const std::byte* levels_of(const std::byte* row, std::size_t count) {
  return row + (count + kBlock - 1) / kBlock * sizeof(float);
}

void unpack_block(const std::byte* scale, const std::byte* levels, std::span<float> values) {
  float factor;
  std::memcpy(&factor, scale, sizeof factor);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(static_cast<std::int8_t>(levels[i])) * factor;
}

}  // namespace

void pack_row(std::span<const float> values, std::byte* row) {
  std::byte* const levels = row + (levels_of(row, values.size()) - row);
  std::memset(levels, 0, (values.size() + 3) / 4 * 4);
  for_each_block(values.size(), [&](std::size_t block, std::size_t first, std::size_t count) {
    const float scale = scale_of(values.subspan(first, count));
    std::memcpy(row + block * sizeof scale, &scale, sizeof scale);
    // A scale of zero has nothing to divide, and one that is no number nothing to keep.
    for (std::size_t i = first; i < first + count && scale > 0; ++i)
      levels[i] = static_cast<std::byte>(level_of(values[i], scale));
  });
}

void unpack_row(const std::byte* row, std::span<float> values) {
  const std::byte* const levels = levels_of(row, values.size());
  for_each_block(values.size(), [&](std::size_t block, std::size_t first, std::size_t count) {
    unpack_block(row + block * sizeof(float), levels + first, values.subspan(first, count));
  });
}

void unpack_row(const std::byte* row, DType dtype, std::byte* values, std::size_t count) {
  CLEAVE_CHECK(dtype == DType::F32 || dtype == DType::BF16, "rows of ", to_string(dtype));
  if (dtype == DType::F32) return unpack_row(row, {reinterpret_cast<float*>(values), count});
  auto* const out = reinterpret_cast<BFloat16*>(values);
  const std::byte* const levels = levels_of(row, count);
  for_each_block(count, [&](std::size_t block, std::size_t first, std::size_t some) {
    std::array<float, kBlock> numbers;
    unpack_block(row + block * sizeof(float), levels + first, std::span(numbers).first(some));
    for (std::size_t i = 0; i < some; ++i) out[first + i] = to_bf16(numbers[i]);
  });
}

}  // namespace cleave::ops
