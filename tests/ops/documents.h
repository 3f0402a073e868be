#pragma once

#include <algorithm>

#include "ops/tensor.h"

#include "cleave/spec/attention_spec.h"

namespace cleave::testing {

/// Where documents of 1, 8, 27, 64, 125 … tokens begin, one after another through all sequences.
inline Tensor document_begins(const AttentionShape& shape) {
  Tensor begins(DType::I32, {shape.tokens()});
  std::int64_t number = 1, begin = 0;
  for (std::int64_t token = 0; token < shape.tokens(); ++token) {
    if (token - begin == number * number * number) {
      begin = token;
      ++number;
    }
    const std::int64_t sequence = token / shape.sequence * shape.sequence;
    begins.view().as<std::int32_t>()[token] =
        static_cast<std::int32_t>(std::max(begin, sequence) - sequence);
  }
  return begins;
}

}  // namespace cleave::testing
