#pragma once

#include <span>
#include <string>
#include <string_view>

namespace cleave {

/// The entry of `known` that `word` was probably meant to be; empty if none is near. A dotted
/// word also matches by its last part, so "optimizer.lr" finds "train.lr".
std::string_view nearest(std::string_view word, std::span<const std::string_view> known);

/// "; did you mean train.steps?", or nothing if no entry is near.
std::string did_you_mean(std::string_view word, std::span<const std::string_view> known);

/// "; did you mean 1f1b? Known are gpipe, 1f1b", or "; known are gpipe, 1f1b" if no entry is near.
std::string known_are(std::string_view word, std::span<const std::string_view> known);

}  // namespace cleave
