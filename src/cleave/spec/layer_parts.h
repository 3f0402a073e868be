#pragma once

#include <cstdint>
#include <string>

#include "cleave/spec/layer_spec.h"
#include "cleave/spec/layers.h"

namespace cleave::spec {

/// A layer of `kind` from x to y, with nothing else set.
LayerSpec layer_between(std::string kind, const std::string& name, TensorSpec x, TensorSpec y);

/// x and y with a row for each token.
LayerSpec token_layer(std::string kind, const std::string& name, const Flow& flow,
                      std::int64_t from, std::int64_t to);

/// x and y with a row for each sequence.
LayerSpec sequence_layer(std::string kind, const std::string& name, const Flow& flow,
                         std::int64_t from, std::int64_t to);

/// A parameter of `size` elements that all begin with `value` and do not decay.
ParameterSpec vector_parameter(const std::string& name, std::int64_t size, float value);

/// A matrix that begins with random numbers of this deviation and decays.
ParameterSpec matrix_parameter(const std::string& name, Shape shape, float deviation);

}  // namespace cleave::spec
