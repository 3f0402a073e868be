#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cleave/spec/layer_spec.h"

namespace cleave::plan {

/// Where the lasting memory of one parameter is: offsets into the stage's Weights, Gradients and
/// Optimizer buffers.
struct ParameterPlace {
  const ParameterSpec* spec = nullptr;
  std::int64_t value = 0;     ///< Weights: what layers compute with, in the model's dtype
  std::int64_t master = 0;    ///< Weights: f32; equal to `value` if the model's dtype is f32
  std::int64_t gradient = 0;  ///< Gradients
  std::int64_t m = 0;         ///< Optimizer
  std::int64_t v = 0;
  bool borrowed = false;  ///< value, master, m and v are those of the parameter it is tied to
};

/// A table that layers share, in the Weights buffer.
struct ConstantPlace {
  const TensorSpec* spec = nullptr;
  std::int64_t offset = 0;
};

/// The lasting memory of a stage: per parameter 2 + 4 + 4 + 8 bytes in bf16, 4 + 4 + 8 in f32.
struct StateLayout {
  std::vector<ParameterPlace> parameters;  ///< of all layers, in order
  std::vector<ConstantPlace> constants;    ///< one per name
  std::int64_t weights = 0;
  std::int64_t gradients = 0;
  std::int64_t optimizer = 0;
};

/// `resident` names the parameters that live on the stage's device: a weight tied to one of them
/// borrows its memory; tied to any other, it is a full copy that is updated in step. Both have a
/// gradient of their own.
StateLayout layout_state(std::span<const SegmentSpec> segments, DType dtype,
                         std::span<const std::string> resident);

}  // namespace cleave::plan
