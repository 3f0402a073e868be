#pragma once

#include "cleave/data/image/image_set.h"
#include "cleave/data/image/normaliser.h"
#include "cleave/data/query.h"
#include "cleave/data/samples.h"

namespace cleave::data {

/// The images of a packed set as models read them. "patches" is the image cut into squares, row by
/// row of squares; of each square the values of one channel after another, row by row. "labels" is
/// the class.
class PatchedImages : public Samples {
 public:
  /// Throws UserError if the images or labels are not those that the model reads.
  PatchedImages(const std::filesystem::path& path, const ImageQuery& query);

  std::int64_t size() const override { return set_.size(); }
  const std::filesystem::path& path() const override { return set_.path(); }
  std::uint64_t digest() const override { return set_.digest(); }
  std::int64_t targets(std::int64_t first, std::int64_t end) const override { return end - first; }
  std::int64_t room() const override { return set_.description().image_bytes(); }
  void read(std::int64_t sample, std::string_view input, const SampleRow& row) const override;

 private:
  void read_patches(std::int64_t sample, const SampleRow& row) const;

  ImageSet set_;
  Normaliser normaliser_;
  std::int64_t patch_;
};

}  // namespace cleave::data
