// The product of AArch64. Its fused multiply-add takes one factor from any lane of a register, so a
// packed strip of a is read a vector at a time: a step of the largest tile is 5 loads and 24
// products, where broadcasts would make it 11.
#include <cstring>

#include <hwy/highway.h>

#include "cleave/ops/simd/gemm_kernel.h"

#if HWY_ARCH_ARM_A64
#include <arm_neon.h>

namespace cleave::ops {
namespace {

constexpr int kLanes = 4;

/// How the words of a lie along one step: those of a packed strip side by side, or far apart.
enum class Words { Together, Apart };

// 8 · 3 sums, a row of b and two vectors of a: 29 of 32 registers. The arrays stay in them because
// every loop over them is unrolled here: handed to another function, they would be in memory.
template <int kRows, int kVectors, Into kInto, Words kWords>
void multiply_words(const GemmTile& tile) {
  const std::int64_t steps = tile.steps, a_row = tile.a_row, a_step = tile.a_step;
  const std::int64_t stride = tile.stride;
  const std::byte* a = tile.a;
  const auto* b = reinterpret_cast<const float*>(tile.b);
  float* out = tile.out;
  float32x4_t sum[kRows][kVectors];
#pragma GCC unroll 8
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) {
      sum[row][v] = vdupq_n_f32(0);
      __builtin_prefetch(out + row * stride + v * kLanes);
    }
  }
  for (std::int64_t step = 0; step < steps; ++step) {
    float32x4_t right[kVectors];
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) right[v] = vld1q_f32(b + v * kLanes);
    if constexpr (kWords == Words::Together) {
#pragma GCC unroll 2
      for (int i = 0; i < kRows; i += kLanes) {
        const float32x4_t left = vld1q_f32(reinterpret_cast<const float*>(a) + i);
#pragma GCC unroll 3
        for (int v = 0; v < kVectors; ++v) {
          sum[i][v] = vfmaq_laneq_f32(sum[i][v], right[v], left, 0);
          sum[i + 1][v] = vfmaq_laneq_f32(sum[i + 1][v], right[v], left, 1);
          sum[i + 2][v] = vfmaq_laneq_f32(sum[i + 2][v], right[v], left, 2);
          sum[i + 3][v] = vfmaq_laneq_f32(sum[i + 3][v], right[v], left, 3);
        }
      }
    } else {
#pragma GCC unroll 8
      for (int row = 0; row < kRows; ++row) {
        float word;
        std::memcpy(&word, a + row * a_row, 4);
#pragma GCC unroll 3
        for (int v = 0; v < kVectors; ++v) sum[row][v] = vfmaq_n_f32(sum[row][v], right[v], word);
        // The compiler would load all eight words first, and keep sums in memory meanwhile.
        if (row % 2 == 1) __asm__ volatile("" ::: "memory");
      }
    }
    a += a_step;
    b += kVectors * kLanes;
  }
#pragma GCC unroll 8
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) {
      float* at = out + row * stride + v * kLanes;
      if constexpr (kInto == Into::Accumulate) sum[row][v] = vaddq_f32(vld1q_f32(at), sum[row][v]);
      vst1q_f32(at, sum[row][v]);
    }
  }
}

template <int kRows, int kVectors, Into kInto>
void multiply(const GemmTile& tile) {
  if constexpr (kRows % kLanes == 0) {
    if (tile.a_row == 4) return multiply_words<kRows, kVectors, kInto, Words::Together>(tile);
  }
  multiply_words<kRows, kVectors, kInto, Words::Apart>(tile);
}

const GemmKernel kKernel{.lanes = kLanes, .rows = 8, .k_step = 1, CLEAVE_GEMM_TABLES(8)};

}  // namespace

const GemmKernel* neon_gemm_kernel() {
  return &kKernel;
}

}  // namespace cleave::ops

#else

namespace cleave::ops {

const GemmKernel* neon_gemm_kernel() {
  return nullptr;
}

}  // namespace cleave::ops

#endif
