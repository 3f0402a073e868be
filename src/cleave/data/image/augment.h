#pragma once

#include <cstdint>
#include <span>

#include "cleave/data/image/image_set.h"
#include "cleave/data/query.h"
#include "cleave/data/samples.h"

namespace cleave::data {

/// Which way one image of a sample is changed before a model learns from it.
struct Change {
  bool mirrored = false;  ///< left and right exchanged
  std::int64_t top = 0;   ///< of the part that is shown, in pixels; may be negative
  std::int64_t left = 0;  ///< likewise: what lies outside repeats the border

  friend bool operator==(const Change&, const Change&) = default;
};

/// A function of the seed, the epoch, the sample and the image alone. A crop moves the image by up
/// to an eighth of its side in both directions.
Change change_of(std::span<const ImageChange> changes, const ImageDraw& draw, std::int64_t side);

/// In place, through `room`, which has as many bytes.
void apply(const Change& change, const SetDescription& set, std::span<std::uint8_t> pixels,
           std::span<std::uint8_t> room);

}  // namespace cleave::data
