#pragma once

#include <memory>
#include <span>

#include "cleave/ops/compute.h"
#include "cleave/spec/matmul_spec.h"

namespace cleave::ops {

/// How fast oneDNN does a list of products back to back, with nothing between them: the limit that
/// a training step is measured against.
///
/// Layouts are oneDNN's choice: for each product the fastest of plain, transposed and reordered
/// weights, and the reordering is not counted. Transposition, strides, bias and accumulation of the
/// list are ignored. The products share operands, so these are as warm in the caches as they can
/// be.
class GemmLimit {
 public:
  /// Compiles the products and finds the fastest layouts. Takes a few times as long as run().
  GemmLimit(const Compute& compute, std::span<const CountedMatmul> products);
  ~GemmLimit();
  GemmLimit(const GemmLimit&) = delete;
  GemmLimit& operator=(const GemmLimit&) = delete;

  /// Seconds of all products, each as often as the list says.
  double run();

 private:
  class Products;
  std::unique_ptr<Products> products_;
};

}  // namespace cleave::ops
