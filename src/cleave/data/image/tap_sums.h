#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

// The inner loops of resizing: sums of bytes by weights in fixed point, in whole numbers, so that
// they have one result however they are added. Where the processor multiplies 16-bit numbers in
// pairs, a weight is high * 2^11 + low, and so is its sum.

namespace cleave::data {

inline constexpr int kFraction = 22;  ///< bits after the point of a weight
inline constexpr std::int32_t kHalf = 1 << (kFraction - 1);
inline constexpr int kLowBits = 11;

/// Two neighbouring weights, the first of them in the lower 16 bits of each.
struct WeightPair {
  std::int32_t low = 0;
  std::int32_t high = 0;
};

inline WeightPair pair_of(std::int32_t first, std::int32_t second) {
  const auto both = [](std::int32_t a, std::int32_t b) {
    return static_cast<std::int32_t>((static_cast<std::uint32_t>(b) << 16) |
                                     (static_cast<std::uint32_t>(a) & 0xffff));
  };
  constexpr std::int32_t kMask = (1 << kLowBits) - 1;
  return {both(first & kMask, second & kMask), both(first >> kLowBits, second >> kLowBits)};
}

/// Along one side: which pixels each pixel of the result adds up, and by which weights.
struct Taps {
  struct Run {
    std::int64_t first = 0;
    std::int64_t count = 0;
  };
  std::vector<Run> runs;
  std::vector<std::int32_t> weights;  ///< `stride` for each run, an even number; zeros at its end
  std::vector<WeightPair> pairs;      ///< the same
  std::int64_t stride = 0;

  const std::int32_t* of(std::int64_t index) const { return &weights[index * stride]; }
  const WeightPair* pairs_of(std::int64_t index) const { return &pairs[index * stride / 2]; }
};

inline std::uint8_t byte_of(std::int32_t sum) {
  return static_cast<std::uint8_t>(std::clamp(sum >> kFraction, 0, 255));
}

/// Bytes after a row that resize_row may read and leave out of account.
inline constexpr std::int64_t kRowPadding = 8;

/// One row of pixels of `kChannels` bytes each.
template <int kChannels>
void resize_row(const std::uint8_t* row, const Taps& taps, std::uint8_t* out) {
  for (std::size_t x = 0; x < taps.runs.size(); ++x) {
    const std::int32_t* weight = taps.of(static_cast<std::int64_t>(x));
    const std::uint8_t* in = row + taps.runs[x].first * kChannels;
    std::int32_t sums[kChannels];
    for (std::int32_t& sum : sums) sum = kHalf;
    for (std::int64_t k = 0; k < taps.runs[x].count; ++k) {
      for (int c = 0; c < kChannels; ++c) sums[c] += in[kChannels * k + c] * weight[k];
    }
    for (int c = 0; c < kChannels; ++c) out[kChannels * x + c] = byte_of(sums[c]);
  }
}

/// Elements [begin, end) of a row of the result, which adds up `rows`.
inline void add_rows(std::span<const std::uint8_t* const> rows, const std::int32_t* weights,
                     std::int64_t begin, std::int64_t end, std::uint8_t* out) {
  for (std::int64_t x = begin; x < end; ++x) {
    std::int32_t sum = kHalf;
    for (std::size_t k = 0; k < rows.size(); ++k) sum += rows[k][x] * weights[k];
    out[x] = byte_of(sum);
  }
}

#if defined(__SSE2__)

/// Four sums as bytes, in the lower 32 bits.
inline __m128i bytes_of(__m128i low, __m128i high) {
  const __m128i sum =
      _mm_add_epi32(_mm_add_epi32(_mm_set1_epi32(kHalf), low), _mm_slli_epi32(high, kLowBits));
  const __m128i words = _mm_packs_epi32(_mm_srai_epi32(sum, kFraction), _mm_setzero_si128());
  return _mm_packus_epi16(words, _mm_setzero_si128());
}

/// Two pixels of three bytes at a time.
template <>
inline void resize_row<3>(const std::uint8_t* row, const Taps& taps, std::uint8_t* out) {
  const __m128i zero = _mm_setzero_si128();
  for (std::size_t x = 0; x < taps.runs.size(); ++x) {
    const WeightPair* weight = taps.pairs_of(static_cast<std::int64_t>(x));
    const std::uint8_t* in = row + taps.runs[x].first * 3;
    __m128i low = zero;
    __m128i high = zero;
    for (std::int64_t k = 0; k < taps.runs[x].count; k += 2, in += 6, ++weight) {
      // r0 g0 b0 r1 g1 b1 … becomes r0 r1 g0 g1 b0 b1 …
      const __m128i wide =
          _mm_unpacklo_epi8(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(in)), zero);
      const __m128i both = _mm_unpacklo_epi16(wide, _mm_srli_si128(wide, 6));
      low = _mm_add_epi32(low, _mm_madd_epi16(both, _mm_set1_epi32(weight->low)));
      high = _mm_add_epi32(high, _mm_madd_epi16(both, _mm_set1_epi32(weight->high)));
    }
    const std::int32_t pixel = _mm_cvtsi128_si32(bytes_of(low, high));
    std::memcpy(out + 3 * x, &pixel, 3);
  }
}

/// Eight elements at a time, as far as there are eight; returns how many were made.
inline std::int64_t add_rows_by_eight(std::span<const std::uint8_t* const> rows,
                                      const WeightPair* pairs, std::int64_t elements,
                                      std::uint8_t* out) {
  const __m128i zero = _mm_setzero_si128();
  std::int64_t x = 0;
  for (; x + 8 <= elements; x += 8) {
    __m128i low[2] = {zero, zero};
    __m128i high[2] = {zero, zero};
    for (std::size_t k = 0; k < rows.size(); k += 2) {
      const std::uint8_t* second = rows[std::min(k + 1, rows.size() - 1)];  // or by a weight of 0
      const __m128i both =
          _mm_unpacklo_epi8(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(rows[k] + x)),
                            _mm_loadl_epi64(reinterpret_cast<const __m128i*>(second + x)));
      const __m128i four[2] = {_mm_unpacklo_epi8(both, zero), _mm_unpackhi_epi8(both, zero)};
      const __m128i low_weights = _mm_set1_epi32(pairs[k / 2].low);
      const __m128i high_weights = _mm_set1_epi32(pairs[k / 2].high);
      for (int half = 0; half < 2; ++half) {
        low[half] = _mm_add_epi32(low[half], _mm_madd_epi16(four[half], low_weights));
        high[half] = _mm_add_epi32(high[half], _mm_madd_epi16(four[half], high_weights));
      }
    }
    for (int half = 0; half < 2; ++half) {
      const std::int32_t bytes = _mm_cvtsi128_si32(bytes_of(low[half], high[half]));
      std::memcpy(out + x + 4 * half, &bytes, 4);
    }
  }
  return x;
}

#else

inline std::int64_t add_rows_by_eight(std::span<const std::uint8_t* const>, const WeightPair*,
                                      std::int64_t, std::uint8_t*) {
  return 0;
}

#endif

}  // namespace cleave::data
