#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>

#include "cleave/base/check.h"
#include "cleave/ops/accelerator.h"

namespace cleave::ops::device {

/// Lanes of a group: the slots of a sum.
inline constexpr int kLanes = 64;

/// One lane for each of `count` items.
template <class... Arguments>
void run_items(Accelerator& device, const char* kernel, DType dtype, std::int64_t count,
               const Arguments&... arguments) {
  if (count == 0) return;
  const std::array<KernelArgument, sizeof...(Arguments)> list = {KernelArgument(arguments)...};
  device.launch({kernel, dtype, (count + kLanes - 1) / kLanes, kLanes, list});
}

/// One group of 64 lanes for each of `count` rows, or tiles.
template <class... Arguments>
void run_groups(Accelerator& device, const char* kernel, DType dtype, std::int64_t count,
                const Arguments&... arguments) {
  if (count == 0) return;
  const std::array<KernelArgument, sizeof...(Arguments)> list = {KernelArgument(arguments)...};
  device.launch({kernel, dtype, count, kLanes, list});
}

/// How kernels over elements count: `count` of them in rows of n, `inner` rows in a plane. Views
/// that are all dense count as one long row.
struct Elements {
  std::int64_t count, n, inner;

  Elements(std::initializer_list<ConstView> views) {
    const ConstView first = *views.begin();
    const int rank = first.rank();
    count = first.elements();
    const bool dense = std::ranges::all_of(views, [](ConstView view) { return view.dense(); });
    CLEAVE_CHECK(dense || rank <= 3, "an accelerator has no kernel for strided ",
                 to_string(first.shape()));
    n = dense || rank == 0 ? std::max<std::int64_t>(1, count) : first.size(rank - 1);
    inner = dense || rank < 2 ? 1 : first.size(rank - 2);
    dense_ = dense;
  }

  /// The stride between planes, and between rows.
  std::int64_t outer(ConstView view) const {
    return dense_ || view.rank() < 3 ? 0 : view.stride(view.rank() - 3);
  }
  std::int64_t row(ConstView view) const {
    return dense_ || view.rank() < 2 ? 0 : view.stride(view.rank() - 2);
  }

 private:
  bool dense_;
};

/// The distance between rows of a matrix.
inline std::int64_t stride_of(ConstView matrix) {
  return matrix ? matrix.stride(0) : 0;
}

}  // namespace cleave::ops::device
