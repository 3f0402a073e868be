#include "ops/every_target.h"

#include <hwy/targets.h>

namespace cleave::testing {

std::vector<Target> supported_targets() {
  use_target(0);
  std::vector<Target> found;
  for (std::int64_t bit : {HWY_AVX3, HWY_AVX2, HWY_SSE4, HWY_SCALAR}) {
    if (bit == HWY_SCALAR || (hwy::SupportedTargets() & bit) != 0) {
      found.push_back({bit, hwy::TargetName(bit)});
    }
  }
  return found;
}

void use_target(std::int64_t bit) {
  hwy::SetSupportedTargetsForTest(bit);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace cleave::testing
