#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "cleave/base/check.h"
#include "cleave/edge/fixed_point.h"
#include "cleave/edge/outer.h"
#include "cleave/secure/noise.h"
#include "cleave/secure/secure_sum.h"
#include "cleave/train/config/edge_config.h"

namespace cleave::train {

// The arithmetic of a round's sum, element by element: one way, whether clients are played in turn
// or each sends what it made.

/// A number of a client's update as a multiple of edge::kFixedUnit. Throws NonFinite, naming client
/// and tensor, if it is too large.
inline std::uint64_t fixed_change(double change, std::string_view tensor, int client) {
  std::uint64_t fixed = 0;
  if (!edge::add_fixed(change, fixed))
    throw NonFinite(detail::concat("client ", client, " moved ", tensor, " by ", change,
                                   ", which is too much to be added in fixed point; lower "
                                   "train.lr, set train.clip, or edge.sums to \"ordered\""));
  return fixed;
}

/// What ends a round.
struct RoundEnd {
  std::int64_t round = 0;
  std::size_t clients = 0;  ///< whose updates arrived
  double weights = 0;       ///< what the sum is divided by
  std::span<const secure::LeftMask> left = {};
  std::optional<secure::Bytes32> noise = {};  ///< what it is drawn from; nothing: there is none
};

/// The key of a tensor's noise; nothing: there is none.
inline std::optional<secure::Bytes32> noise_key(const RoundEnd& end, std::string_view tensor) {
  return end.noise ? std::optional(secure::derive(*end.noise, tensor)) : std::nullopt;
}

/// How many elements mean_changes() takes at once.
inline constexpr std::size_t kMeanElements = 256;

/// What the sums of elements `first`, … of a tensor say of its mean change. `sums`, which lose
/// their masks here, are bits: fixed point, or f64. `key` is of noise_key().
inline void mean_changes(const EdgeConfig& edge, const RoundEnd& end, std::string_view tensor,
                         const std::optional<secure::Bytes32>& key, std::uint64_t first,
                         std::span<std::uint64_t> sums, std::span<double> changes) {
  std::array<double, kMeanElements> noise{};
  CLEAVE_CHECK(sums.size() <= noise.size(), sums.size(), " at once");
  secure::take_off(end.left, tensor, first, sums);
  if (key) secure::fill_noise(*key, first, std::span(noise).first(sums.size()));
  for (std::size_t i = 0; i < sums.size(); ++i)
    changes[i] = ((edge.fixed_sums ? edge::from_fixed(sums[i]) : std::bit_cast<double>(sums[i])) +
                  edge.noise * edge.clip * noise[i]) /
                 end.weights;
}

}  // namespace cleave::train
