#pragma once

#include <cstdint>

#include "cleave/spec/layer_spec.h"

namespace cleave::parallel {

/// Bytes that one device sends over the tensor axis.
struct TensorTraffic {
  std::int64_t forward = 0;  ///< by every F, and so on
  std::int64_t input = 0;
  std::int64_t weight = 0;
  std::int64_t sum = 0;  ///< by the W that ends a sum of microbatches, besides
};

TensorTraffic tensor_traffic(const LayerSpec& layer);

}  // namespace cleave::parallel
