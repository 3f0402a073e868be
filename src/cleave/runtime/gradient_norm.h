#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cleave/ops/compute.h"
#include "cleave/runtime/stage.h"

namespace cleave::runtime {

/// Sums of squares of the gradients, one f64 per tensor of the model.
///
/// The order is fixed by the model alone: blocks of 4096 elements within a tensor, blocks in order,
/// tensors by name. A tied weight counts once, under the name of its owner.
class GradientNorm {
 public:
  /// `names`: the tensors of the whole model, sorted. `stages`: those of this device.
  GradientNorm(std::span<const std::string> names, std::span<Stage* const> stages);

  /// How many tensors the model has.
  std::int64_t tensors() const { return tensors_; }

  /// squares[t] of every tensor whose gradient is on this device; leaves the others alone.
  void add_squares(ops::Compute& compute, std::span<double> squares);

  /// The norm from the squares of all tensors.
  static double norm(std::span<const double> squares);

 private:
  struct Tensor {
    View gradient;
    std::int64_t index = 0;
  };

  std::vector<Tensor> owned_;
  std::vector<double> blocks_;
  std::int64_t tensors_ = 0;
};

/// The names of all tensors of a model, sorted: what checkpoints, norms and hashes go by.
std::vector<std::string> tensor_names(std::span<const SegmentSpec> segments);

}  // namespace cleave::runtime
