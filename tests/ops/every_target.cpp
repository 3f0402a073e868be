#include "ops/every_target.h"

#include <hwy/targets.h>

#include "cleave/ops/instruction_limit.h"

namespace cleave::testing {

std::vector<Target> supported_targets() {
  ops::instruction_limit();  // what CLEAVE_ISA forbids is not there
  use_target(0);
  std::vector<Target> found;
  for (std::int64_t bit : {HWY_AVX3, HWY_AVX2, HWY_SSE4, HWY_NEON, HWY_SCALAR}) {
    // Every x86 can play one lane at a time; ARM always has NEON.
    const bool plain = bit == HWY_SCALAR && HWY_ARCH_X86;
    if (plain || (hwy::SupportedTargets() & bit) != 0) {
      found.push_back({bit, hwy::TargetName(bit)});
    }
  }
  return found;
}

std::vector<Target> exact_targets() {
  std::vector<Target> found = supported_targets();
  std::erase_if(found, [](const Target& target) { return target.bit == HWY_SSE4; });
  return found;
}

void use_target(std::int64_t bit) {
  hwy::SetSupportedTargetsForTest(bit);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace cleave::testing
