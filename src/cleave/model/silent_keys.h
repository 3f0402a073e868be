#pragma once

#include <string_view>

namespace cleave::model {

/// Whether a key of a config.json says nothing about what a model computes: where it comes from,
/// how it is trained, generates or is labelled. Dropout is a matter of training, and cleave has
/// none.
bool says_nothing_of_the_model(std::string_view key);

/// Whether a key stands for true where it is missing, so that its false says something.
bool is_true_by_default(std::string_view key);

}  // namespace cleave::model
