#include "cleave/ops/simd/target.h"

#include <hwy/targets.h>

namespace cleave::ops {
namespace {

/// What may be used. Highway's own question has an effect: it lets kernels use all that the
/// processor has, until somebody tells them the answer.
std::int64_t usable_targets() {
  const std::int64_t targets = hwy::SupportedTargets();
  hwy::GetChosenTarget().Update(targets);
  return targets;
}

/// Highway's bit of the instruction set in use. Asked once: other threads may be computing.
std::int64_t chosen() {
  instruction_limit();
  static const auto usable = static_cast<std::uint64_t>(usable_targets() & HWY_TARGETS);
  // A lower bit is a better target.
  return static_cast<std::int64_t>(usable & (~usable + 1));
}

}  // namespace

std::string simd_target() {
  return hwy::TargetName(chosen());
}

bool bf16_dot_is_faster() {
#if HWY_ARCH_X86
  __builtin_cpu_init();
  return !__builtin_cpu_is("intel");
#else
  return true;
#endif
}

bool simd_is_fused() {
  // One lane at a time calls the C library's fma, which rounds once as well.
  return chosen() != HWY_SSE4;
}

void limit_simd(InstructionLevel level) {
  std::int64_t above = 0;
  if (level < InstructionLevel::Avx512) above |= HWY_AVX3 | HWY_AVX3_DL;
  if (level < InstructionLevel::Avx2) above |= HWY_AVX2;
  if (level < InstructionLevel::Sse4) above |= HWY_SSE4 | HWY_SSSE3;
  if (!HWY_ARCH_X86 || above == 0) return;
  hwy::DisableTargets(above);
  usable_targets();
}

}  // namespace cleave::ops
