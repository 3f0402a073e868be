#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cleave/checkpoint/checkpoint.h"
#include "cleave/engine/run/device.h"
#include "cleave/train/keep/stripe.h"

namespace cleave::train {

/// What a device has of the state, seen as one sequence of f32: master weights and slots of what is
/// trained, with the regions of memory that they fill, one after the other.
struct StateImage {
  std::vector<Stripe> stripes;
  std::vector<std::span<float>> regions;

  std::int64_t elements() const;
  std::int64_t bytes() const { return elements() * static_cast<std::int64_t>(sizeof(float)); }

  /// The memory of a run of the image; no run lies in two regions.
  std::span<float> at(std::int64_t first, std::int64_t length) const;
};

/// Whose tensors an image has: those that the device updates, or copies of others' with them.
enum class Whose : std::uint8_t { Own, OwnAndTied };

/// The image of a device whose memory is the host's.
StateImage image_of(const engine::Device& device, const checkpoint::CheckpointLayout& layout,
                    Whose whose);

/// The same stripes in other memory, all in one region.
StateImage image_in(const std::vector<Stripe>& stripes, std::span<float> memory);

}  // namespace cleave::train
