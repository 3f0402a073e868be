// Highway 1.0 knows no vdpbf16ps, hence intrinsics, with the instruction sets switched on for this
// file's functions only.
#include <cstring>

#include <hwy/highway.h>

#include "cleave/ops/instruction_limit.h"
#include "cleave/ops/simd/gemm_kernel.h"

#if HWY_ARCH_X86_64
#include <cpuid.h>
#include <immintrin.h>

HWY_PUSH_ATTRIBUTES("avx512f,avx512vl,avx512bw,avx512dq,avx512bf16")
namespace cleave::ops {
namespace {

// As in gemm_kernel_f32.cpp; a word is now a pair along k.
template <int kRows, int kVectors, Into kInto>
void multiply(const GemmTile& tile) {
  constexpr int kLanes = 16;
  const std::int64_t steps = tile.steps;
  const std::int64_t a_row = tile.a_row;
  const std::int64_t a_step = tile.a_step;
  const std::int64_t stride = tile.stride;
  const std::byte* a = tile.a;
  const std::uint32_t* b = tile.b;
  float* out = tile.out;
  __m512 sum[kRows][kVectors];
#pragma GCC unroll 8
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) {
      sum[row][v] = _mm512_setzero_ps();
      _mm_prefetch(reinterpret_cast<const char*>(out + row * stride + v * kLanes), _MM_HINT_T0);
    }
  }
  for (std::int64_t step = 0; step < steps; ++step) {
    __m512bh right[kVectors];
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) {
      right[v] = (__m512bh)_mm512_loadu_si512(b + v * kLanes);
    }
#pragma GCC unroll 8
    for (int row = 0; row < kRows; ++row) {
      int word;
      std::memcpy(&word, a + row * a_row, 4);
      const __m512bh left = (__m512bh)_mm512_set1_epi32(word);
#pragma GCC unroll 3
      for (int v = 0; v < kVectors; ++v) {
        sum[row][v] = _mm512_dpbf16_ps(sum[row][v], left, right[v]);
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
      if constexpr (kInto == Into::Accumulate) {
        sum[row][v] = _mm512_add_ps(_mm512_loadu_ps(at), sum[row][v]);
      }
      _mm512_storeu_ps(at, sum[row][v]);
    }
  }
}

}  // namespace
}  // namespace cleave::ops
HWY_POP_ATTRIBUTES

namespace cleave::ops {
namespace {

const GemmKernel kKernel{.lanes = 16, .rows = 8, .k_step = 2, CLEAVE_GEMM_TABLES(8)};

bool processor_has_bf16() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kAvx512Bf16 = 1u << 5;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & kAvx512Bf16) != 0;
}

}  // namespace

const GemmKernel* bf16_gemm_kernel() {
  static const bool has_bf16 = processor_has_bf16();
  return has_bf16 && instruction_limit() >= InstructionLevel::Avx512Bf16 ? &kKernel : nullptr;
}

}  // namespace cleave::ops

#else

namespace cleave::ops {

const GemmKernel* bf16_gemm_kernel() {
  return nullptr;
}

}  // namespace cleave::ops

#endif
