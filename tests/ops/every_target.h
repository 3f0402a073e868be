#pragma once

#include <string>

#include <gtest/gtest.h>
#include <hwy/highway.h>

#include "cleave/ops/compute.h"

namespace cleave::testing {

inline void use_targets(std::int64_t targets) {
  hwy::SetSupportedTargetsForTest(targets);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

/// Calls `test(compute)` with every instruction set that this machine has, one and two threads.
template <class Test>
void on_every_target(const Test& test) {
  use_targets(0);
  const std::int64_t supported = hwy::SupportedTargets() | HWY_SCALAR;
  for (std::int64_t target : {HWY_AVX3, HWY_AVX2, HWY_SSE4, HWY_SCALAR}) {
    if ((supported & target) == 0) continue;
    use_targets(target);
    for (int threads : {1, 2}) {
      SCOPED_TRACE(std::string(hwy::TargetName(target)) + ", threads " + std::to_string(threads));
      ops::Compute compute(threads);
      test(compute);
    }
  }
  use_targets(0);
}

}  // namespace cleave::testing
