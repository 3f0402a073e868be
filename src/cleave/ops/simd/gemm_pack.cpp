#include "cleave/ops/simd/gemm_pack.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cleave/ops/simd/gemm_pack.cpp"
#include <hwy/foreach_target.h>

#include "cleave/ops/simd/pack_lanes-inl.h"
#include "cleave/ops/simd/pack_transposed-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cleave::ops::HWY_NAMESPACE {

/// One panel, or a piece of it along k.
HWY_INLINE void pack_panel(const Strip& strip, std::int64_t width, int k_step,
                           std::uint32_t* panel) {
  const bool widen = strip.dtype == DType::BF16 && k_step == 1;
  if (strip.depth_stride == 1) {
    if (widen) return transpose_lanes<Widened>(strip, strip.depth, width, panel);
    transpose_lanes<AsIs>(strip, strip.depth / k_step, width, panel);
  } else if (widen) {
    copy_lanes<BFloat16>(strip, width, panel);
  } else if (k_step == 1) {
    copy_lanes<float>(strip, width, panel);
  } else {
    pair_lanes(strip, width, panel);
  }
  if (strip.depth % k_step != 0) pack_odd_end(strip, width, panel);
}

/// Zeros in the lanes of the last panel that the strip has not, unless they come with its copy.
HWY_INLINE void clear_rest(const Strip& strip, std::int64_t width, int k_step,
                           std::uint32_t* panels) {
  const std::int64_t steps = (strip.depth + k_step - 1) / k_step;
  const std::int64_t lanes = strip.lanes % width;
  const bool copied = strip.depth_stride != 1 && k_step == 1;
  if (lanes == 0 || (copied && fills_panel(lanes, width))) return;
  std::uint32_t* panel = panels + strip.lanes / width * steps * width;
  for (std::int64_t step = 0; step < steps; ++step, panel += width) {
    for (std::int64_t lane = lanes; lane < width; ++lane) panel[lane] = 0;
  }
}

void pack_panels(const Strip& strip, std::int64_t width, int k_step, std::uint32_t* panels) {
  const std::int64_t steps = (strip.depth + k_step - 1) / k_step;
  if (strip.lanes == 0) return;
  clear_rest(strip, width, k_step, panels);
  const auto vector = static_cast<std::int64_t>(kLanes);
  const bool halves = strip.depth_stride != 1 && 2 * width == vector;
  // Piece by piece along k, so that lines of the operand serve all panels that want a part of them:
  // few rows where the lanes are contiguous, some lines of each lane where k is.
  const std::int64_t piece = strip.depth_stride == 1 ? 256 : 16 * k_step;
  for (std::int64_t k = 0; k < strip.depth; k += piece) {
    const auto part = [&](std::int64_t lane, std::int64_t lanes) {
      Strip some = strip;
      some.at += (k * strip.depth_stride + lane * strip.lane_stride) * size_of(strip.dtype);
      some.depth = std::min(piece, strip.depth - k);
      some.lanes = lanes;
      return some;
    };
    std::int64_t lane = 0;
    for (; halves && lane + vector <= strip.lanes; lane += vector) {
      pack_halves(part(lane, vector), k_step, steps * width,
                  panels + lane * steps + k / k_step * width);
    }
    for (; lane < strip.lanes; lane += width) {
      pack_panel(part(lane, std::min(width, strip.lanes - lane)), width, k_step,
                 panels + lane * steps + k / k_step * width);
    }
  }
}

}  // namespace cleave::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cleave::ops {

HWY_EXPORT(pack_panels);

void pack_panels(const Strip& strip, std::int64_t width, int k_step, std::uint32_t* panels) {
  HWY_DYNAMIC_DISPATCH(pack_panels)(strip, width, k_step, panels);
}

}  // namespace cleave::ops
#endif
