#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace cleave::train {

/// Runs of neighbouring elements of one tensor, all as long and as far apart, and where they lie in
/// an image of a device's state: how a slice of a tensor is told to other devices.
///
///     tensor  ····XXX·······XXX·······XXX···     first 4, length 3, stride 10, count 3
struct Stripe {
  std::int32_t part = 0;       ///< checkpoint::Part
  std::int32_t parameter = 0;  ///< of the CheckpointLayout
  std::int64_t first = 0;      ///< element of the whole tensor
  std::int64_t length = 0;
  std::int64_t stride = 0;
  std::int64_t count = 0;
  std::int64_t at = 0;     ///< element of the image
  std::int64_t pitch = 0;  ///< between two runs of the image

  friend bool operator==(const Stripe&, const Stripe&) = default;
};

/// A run of a tensor and where it lies in an image.
struct TensorRun {
  std::int32_t part = 0;
  std::int32_t parameter = 0;
  std::int64_t first = 0;
  std::int64_t length = 0;
  std::int64_t at = 0;
};

/// Runs that follow each other evenly become one stripe.
std::vector<Stripe> stripes_of(std::span<const TensorRun> runs);

/// Calls visit(run) on every run of a stripe.
template <class Visit>
void for_each_run(const Stripe& stripe, Visit&& visit) {
  for (std::int64_t i = 0; i < stripe.count; ++i)
    visit(TensorRun{stripe.part, stripe.parameter, stripe.first + i * stripe.stride, stripe.length,
                    stripe.at + i * stripe.pitch});
}

/// As bytes that another process of the same build reads. Throws UserError if they are no stripes.
std::string to_bytes(std::span<const Stripe> stripes);
std::vector<Stripe> stripes_in(const std::string& bytes);

}  // namespace cleave::train
