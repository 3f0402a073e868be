#include "cleave/ops/unit_rows.h"

#include <cmath>

#include "cleave/ops/device/pairs.h"
#include "cleave/ops/element_rows.h"
#include "cleave/ops/simd/rows.h"

namespace cleave::ops {
namespace {

constexpr std::int64_t kUnitGrain = 16;

}  // namespace

void unit_rows(Compute& compute, ConstView x, View y, View inverse) {
  check_float("unit rows x", x);
  check_view("unit rows x", x, x.dtype(), {x.size(0), x.size(1)});
  check_view("unit rows y", y, DType::F32, x.shape());
  check_view("unit rows inverse", inverse, DType::F32, {x.size(0)});
  if (Accelerator* device = compute.accelerator()) return device::unit_rows(*device, x, y, inverse);
  parallel_for(compute, x.size(0), kUnitGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const ConstRow from(x, row);
      double squares = 0;
      for (std::int64_t i = 0; i < x.size(1); ++i) squares += from.at(i) * from.at(i);
      const auto factor = static_cast<float>(squares == 0 ? 0 : 1 / std::sqrt(squares));
      inverse.as<float>()[row] = factor;
      for (std::int64_t i = 0; i < x.size(1); ++i)
        row_of<float>(y, row)[i] = static_cast<float>(from.at(i)) * factor;
    }
  });
}

void unit_rows_backward(Compute& compute, ConstView dy, ConstView x, ConstView inverse, View dx) {
  check_float("unit rows x", x);
  check_view("unit rows x", x, x.dtype(), {x.size(0), x.size(1)});
  check_view("unit rows dy", dy, DType::F32, x.shape());
  check_view("unit rows dx", dx, x.dtype(), x.shape());
  check_view("unit rows inverse", inverse, DType::F32, {x.size(0)});
  if (Accelerator* device = compute.accelerator())
    return device::unit_rows_backward(*device, dy, x, inverse, dx);
  parallel_for(compute, x.size(0), kUnitGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const ConstRow from(x, row);
      const float* slope = row_of<float>(dy, row);
      const double factor = inverse.as<float>()[row];
      double along = 0;
      for (std::int64_t i = 0; i < x.size(1); ++i)
        along += from.at(i) * factor * static_cast<double>(slope[i]);
      const Row to(dx, row);
      for (std::int64_t i = 0; i < x.size(1); ++i)
        to.set(i, (static_cast<double>(slope[i]) - from.at(i) * factor * along) * factor);
    }
  });
}

}  // namespace cleave::ops
