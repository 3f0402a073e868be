#pragma once

#include <span>

#include "cleave/data/image/image_set.h"
#include "cleave/data/image/normaliser.h"
#include "cleave/data/query.h"
#include "cleave/data/samples.h"

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

  /// Fills row.values with an image, changed if something is learned from it; row.room has its
  /// bytes meanwhile. Allocates nothing.
  void read(const ImageSet& set, std::int64_t sample, std::int64_t image,
            const SampleRow& row) const;

 private:
  Normaliser normaliser_;
  std::int64_t patch_;
  std::vector<ImageChange> augment_;
  std::uint64_t seed_;
};

}  // namespace cleave::data
