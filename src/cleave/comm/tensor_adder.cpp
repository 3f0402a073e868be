#include "cleave/comm/tensor_adder.h"

#include <cstdint>

#include "cleave/base/check.h"
#include "cleave/ops/elementwise.h"
#include "cleave/tensor/view.h"

namespace cleave::comm {

TensorAdder::TensorAdder(ops::Compute& compute, DType dtype) : compute_(compute), dtype_(dtype) {
  CLEAVE_CHECK(dtype == DType::F32 || dtype == DType::BF16, "sums of ", to_string(dtype));
}

std::size_t TensorAdder::element_bytes() const {
  return static_cast<std::size_t>(size_of(dtype_));
}

void TensorAdder::add(std::span<const std::byte> a, std::span<const std::byte> b,
                      std::span<std::byte> out) const {
  const Shape shape = {static_cast<std::int64_t>(out.size() / element_bytes())};
  ops::add(compute_, ConstView(a.data(), dtype_, shape), ConstView(b.data(), dtype_, shape),
           View(out.data(), dtype_, shape));
}

}  // namespace cleave::comm
