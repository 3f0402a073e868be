#pragma once

#include "cleave/data/image/image_set.h"
#include "cleave/data/image/patch_reader.h"
#include "cleave/data/query.h"
#include "cleave/data/samples.h"

namespace cleave::data {

/// The images of a packed set as models that classify them read them. "patches" is the image as
/// PatchReader has it, "labels" the class.
class PatchedImages : public Samples {
 public:
  /// Throws UserError if the images or labels are not those that the model reads.
  PatchedImages(const std::filesystem::path& path, const ImageQuery& query);

  std::int64_t size() const override { return set_.size(); }
  const std::filesystem::path& path() const override { return set_.path(); }
  std::uint64_t digest() const override { return set_.digest(); }
  std::int64_t targets(std::int64_t first, std::int64_t end) const override { return end - first; }
  std::int64_t images(std::int64_t) const override { return 1; }
  std::int64_t room() const override { return set_.description().image_bytes(); }
  void read(std::int64_t sample, std::string_view input, const SampleRow& row) const override;

 private:
  ImageSet set_;
  PatchReader patches_;
};

}  // namespace cleave::data
