#include "cleave/data/image/augment.h"

#include <algorithm>

#include "cleave/base/philox.h"

namespace cleave::data {
namespace {

constexpr std::int64_t kCropPart = 8;  // of a side, that an image may move by

}  // namespace

Change change_of(std::span<const ImageChange> changes, const ImageDraw& draw, std::int64_t side) {
  const Philox random(draw.seed, "augment");
  const auto number = [&](std::uint64_t below, std::uint64_t which) {
    const std::uint64_t place =
        (static_cast<std::uint64_t>(draw.epoch) << 40) ^ static_cast<std::uint64_t>(draw.sample);
    return static_cast<std::int64_t>(
        random.below(below, (place << 8) + 4 * static_cast<std::uint64_t>(draw.image) + which));
  };
  Change change;
  const auto asked = [&](ImageChange one) { return std::ranges::count(changes, one) > 0; };
  if (asked(ImageChange::Flip)) change.mirrored = number(2, 0) == 1;
  if (asked(ImageChange::Crop)) {
    const std::int64_t most = side / kCropPart;
    change.top = number(static_cast<std::uint64_t>(2 * most + 1), 1) - most;
    change.left = number(static_cast<std::uint64_t>(2 * most + 1), 2) - most;
  }
  return change;
}

void apply(const Change& change, const SetDescription& set, std::span<std::uint8_t> pixels,
           std::span<std::uint8_t> room) {
  if (change == Change{}) return;
  const std::int64_t channels = set.channels;
  std::copy(pixels.begin(), pixels.end(), room.begin());
  for (std::int64_t y = 0; y < set.height; ++y) {
    const std::int64_t from_y = std::clamp<std::int64_t>(y + change.top, 0, set.height - 1);
    for (std::int64_t x = 0; x < set.width; ++x) {
      const std::int64_t shown = change.mirrored ? set.width - 1 - x : x;
      const std::int64_t from_x = std::clamp<std::int64_t>(shown + change.left, 0, set.width - 1);
      for (std::int64_t c = 0; c < channels; ++c)
        pixels[static_cast<std::size_t>((y * set.width + x) * channels + c)] =
            room[static_cast<std::size_t>((from_y * set.width + from_x) * channels + c)];
    }
  }
}

}  // namespace cleave::data
