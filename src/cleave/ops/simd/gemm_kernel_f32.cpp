#include <cstring>

#include <hwy/cache_control.h>

#include "cleave/ops/simd/gemm_kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cleave/ops/simd/gemm_kernel_f32.cpp"
#include <hwy/foreach_target.h>

#include "cleave/ops/simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cleave::ops::HWY_NAMESPACE {

// The accumulators, a row of b and one broadcast of a must fit in the registers: 8·3 + 3 + 1 of 32
// with AVX-512, 4·3 + 3 + 1 of 16 otherwise. AArch64 has a kernel of its own. The loops are
// unrolled so that they stay there.
template <int kRows, int kVectors, Into kInto>
void multiply(const GemmTile& tile) {
  const std::int64_t steps = tile.steps;
  const std::int64_t a_row = tile.a_row;
  const std::int64_t a_step = tile.a_step;
  const std::int64_t stride = tile.stride;
  const std::byte* a = tile.a;
  const float* b = reinterpret_cast<const float*>(tile.b);
  float* out = tile.out;
  Vec sum[kRows][kVectors];
#pragma GCC unroll 8
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) {
      sum[row][v] = hn::Zero(F32());
      hwy::Prefetch(out + row * stride + v * kLanes);
    }
  }
  for (std::int64_t step = 0; step < steps; ++step) {
    Vec right[kVectors];
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) right[v] = hn::LoadU(F32(), b + v * kLanes);
#pragma GCC unroll 8
    for (int row = 0; row < kRows; ++row) {
      float word;
      std::memcpy(&word, a + row * a_row, 4);
      const Vec left = hn::Set(F32(), word);
#pragma GCC unroll 3
      for (int v = 0; v < kVectors; ++v) sum[row][v] = mul_add(left, right[v], sum[row][v]);
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
        sum[row][v] = hn::Add(hn::LoadU(F32(), at), sum[row][v]);
      }
      hn::StoreU(sum[row][v], F32(), at);
    }
  }
}

const GemmKernel* f32_kernel() {
  constexpr int kRows = HWY_TARGET <= HWY_AVX3 ? 8 : 4;
  static const GemmKernel kernel{
      .lanes = static_cast<int>(kLanes), .rows = kRows, .k_step = 1, CLEAVE_GEMM_TABLES(kRows)};
  return &kernel;
}

const GemmKernel* choose_kernel(DType dtype, Arithmetic arithmetic) {
  const bool wanted = dtype == DType::BF16 && arithmetic == Arithmetic::Fastest;
  // Only within AVX-512: whoever forbids that forbids its extensions.
  if (wanted && HWY_TARGET <= HWY_AVX3) {
    if (const GemmKernel* kernel = bf16_gemm_kernel()) return kernel;
  }
  if (HWY_ARCH_ARM_A64 && HWY_TARGET == HWY_NEON) return neon_gemm_kernel();
  return f32_kernel();
}

}  // namespace cleave::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cleave::ops {

HWY_EXPORT(choose_kernel);

const GemmKernel& gemm_kernel(DType dtype, Arithmetic arithmetic) {
  return *HWY_DYNAMIC_DISPATCH(choose_kernel)(dtype, arithmetic);
}

}  // namespace cleave::ops
#endif
