#pragma once

#include <span>

#include "cleave/data/image/image_set.h"
#include "cleave/data/image/normaliser.h"
#include "cleave/data/query.h"

namespace cleave::data {

/// Cuts an image, as a set like `set` has it, into squares, row by row of squares; of each square
/// the values of one channel after another, row by row.
void to_patches(std::span<const std::uint8_t> pixels, const SetDescription& set,
                const Normaliser& normaliser, std::int64_t patch, std::span<float> values);

/// Images of a packed set in patches.
class PatchReader {
 public:
  /// Borrows the set. Throws UserError if its images are not those that the model reads.
  PatchReader(const ImageSet& set, const ImageQuery& query);

  /// Fills `values` with an image; `room` has its bytes meanwhile. Allocates nothing.
  void read(const ImageSet& set, std::int64_t sample, std::int64_t image,
            std::span<std::uint8_t> room, std::span<float> values) const;

 private:
  Normaliser normaliser_;
  std::int64_t patch_;
};

}  // namespace cleave::data
