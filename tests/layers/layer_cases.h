#pragma once

#include <string>
#include <vector>

#include "cleave/spec/layers.h"

namespace cleave::testing {

inline constexpr spec::Flow kFlow{.sequences = 2, .sequence = 6, .dtype = DType::F32};
inline constexpr std::int64_t kFeatures = 8;
inline constexpr std::int64_t kVocabulary = 11;

struct LayerCase {
  std::string name;
  LayerSpec spec;
};

/// Every kind of layer, in each of its forms, small enough for finite differences.
std::vector<LayerCase> layer_cases();

}  // namespace cleave::testing
