#include "cleave/ops/simd/target.h"

#include <hwy/targets.h>

namespace cleave::ops {

std::string simd_target() {
  // A lower bit is a better target.
  const auto usable = static_cast<std::uint64_t>(hwy::SupportedTargets() & HWY_TARGETS);
  return hwy::TargetName(static_cast<std::int64_t>(usable & (~usable + 1)));
}

}  // namespace cleave::ops
