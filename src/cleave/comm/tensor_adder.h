#pragma once

#include "cleave/comm/tree_sum.h"
#include "cleave/ops/compute.h"
#include "cleave/spec/dtype.h"

namespace cleave::comm {

/// Adds tensor elements with the device's own kernels.
class TensorAdder final : public Adder {
 public:
  /// F32 or BF16. `compute` must outlive this.
  TensorAdder(ops::Compute& compute, DType dtype);

  std::size_t element_bytes() const override;
  void add(std::span<const std::byte> a, std::span<const std::byte> b,
           std::span<std::byte> out) const override;

 private:
  ops::Compute& compute_;
  DType dtype_;
};

}  // namespace cleave::comm
