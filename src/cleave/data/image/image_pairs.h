#pragma once

#include <vector>

#include "cleave/data/image/image_set.h"
#include "cleave/data/image/patch_reader.h"
#include "cleave/data/query.h"
#include "cleave/data/samples.h"
#include "cleave/data/tokenizer/tokenizer.h"

namespace cleave::data {

/// Images of a packed set and their captions, as models that hold them against each other read
/// them. "patches" is the image, "tokens" the caption with the tokenizer's own frame and an end
/// token, which also fills what is left of the sequence; "ends" the row of that token, counted
/// through the samples before (SampleRow).
class ImagePairs : public Samples {
 public:
  /// Throws UserError: images of another size, a sample without image or caption, too long a text.
  ImagePairs(const std::filesystem::path& path, const Query& query, const Tokenizer* tokenizer);

  std::int64_t size() const override { return set_.size(); }
  const std::filesystem::path& path() const override { return set_.path(); }
  std::uint64_t digest() const override { return set_.digest(); }
  std::int64_t targets(std::int64_t first, std::int64_t end) const override { return end - first; }
  std::int64_t images(std::int64_t) const override { return 1; }
  std::int64_t room() const override { return set_.description().image_bytes(); }
  void read(std::int64_t sample, std::string_view input, const SampleRow& row) const override;

  /// How many tokens all captions have, with what fills them up.
  std::int64_t tokens() const { return size() * sequence_; }

 private:
  ImageSet set_;
  PatchReader patches_;
  std::int64_t sequence_;
  std::int32_t end_;                  // token
  std::vector<std::int32_t> tokens_;  // of all captions, without the end token
  std::vector<std::int64_t> before_;  // of the samples before each, and of all
};

}  // namespace cleave::data
