#pragma once

#include <cstddef>
#include <cstdint>

#include "cleave/spec/dtype.h"

namespace cleave::ops {

/// A part of an operand, about to become panels: `lanes` rows of a or columns of b, `depth` long
/// along k. One of the strides is 1.
struct Strip {
  const std::byte* at;
  DType dtype;
  std::int64_t lanes;
  std::int64_t depth;
  std::int64_t lane_stride;   ///< in elements
  std::int64_t depth_stride;  ///< in elements
};

/// Writes ⌈lanes / width⌉ panels [steps][width] of words, steps = ⌈depth / k_step⌉, one after
/// another; zeros where the strip has nothing.
///
/// k_step 2 packs pairs of bf16. k_step 1 packs f32, widening bf16.
void pack_panels(const Strip& strip, std::int64_t width, int k_step, std::uint32_t* panels);

}  // namespace cleave::ops
