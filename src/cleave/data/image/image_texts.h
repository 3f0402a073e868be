#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cleave/data/chat.h"
#include "cleave/data/image/feature_store.h"
#include "cleave/data/image/image_set.h"
#include "cleave/data/image/patch_reader.h"
#include "cleave/data/query.h"
#include "cleave/data/samples.h"

namespace cleave::data {

/// How texts of a packed set become tokens.
struct TextReading {
  const Tokenizer* tokenizer = nullptr;  ///< null: bytes
  const ChatTemplate* chat = nullptr;    ///< null: each turn is a line
};

/// A text with the places that images have in it, as ImageTexts has them.
struct PlacedText {
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> places;
};

/// What a user asks about `images` images, up to where the assistant's answer begins. They stand
/// where "<image>" does, or, if it is nowhere, before the text. Throws UserError if there are not
/// as many of both.
PlacedText image_prompt(const std::string& text, std::int64_t images, const TextReading& reading,
                        const ImageQuery& query);

/// The texts of a packed set, with their images, as models read them; each sample is a sequence.
///
/// A conversation is written by the template; a caption is what the assistant says of the images.
/// Each image takes the place of `rows` tokens where "<image>" stands. "tokens" and "targets" are
/// as in other texts, and only what the assistant says is to be predicted; "places" has the number
/// of an image's row where it stands, counted with the images before (SampleRow), elsewhere
/// kNoPlace; "patches" has the images one after another. After the end of a text zeros follow among
/// tokens.
class ImageTexts : public Samples {
 public:
  static constexpr std::int32_t kNoPlace = -1;

  /// Throws UserError: images of another size, more of them than the capacity, or too long a text.
  ImageTexts(const std::filesystem::path& path, const Query& query, const TextReading& reading);

  std::int64_t size() const override { return set_.size(); }
  const std::filesystem::path& path() const override { return set_.path(); }
  std::uint64_t digest() const override { return set_.digest(); }
  std::int64_t targets(std::int64_t first, std::int64_t end) const override {
    return targets_[end] - targets_[first];
  }
  std::int64_t images(std::int64_t sample) const override { return set_.entry(sample).images; }
  std::int64_t room() const override { return set_.description().image_bytes(); }
  std::int64_t image_values(std::string_view input) const override;
  void read(std::int64_t sample, std::string_view input, const SampleRow& row) const override;

  const SetDescription& description() const { return set_.description(); }
  std::int64_t all_images() const { return first_image_.back(); }

  /// From now on the inputs "features 0", … are read from `store`, which has all images of the set.
  void read_features(std::unique_ptr<const FeatureStore> store) { features_ = std::move(store); }

  /// How many tokens all texts have, with the rows of their images.
  std::int64_t tokens() const { return std::ssize(tokens_); }

 private:
  void check_images(const Query& query) const;
  void add(const std::vector<std::uint32_t>& part);
  void add_image(std::int64_t index, const ImageQuery& query);
  void end_sample(const std::string& where, const Query& query);

  ImageSet set_;
  PatchReader patches_;
  std::vector<std::int64_t> first_image_ = {0};  // of each sample among all, and their number
  std::unique_ptr<const FeatureStore> features_;
  std::int64_t rows_;                  // tokens that an image takes the place of
  std::vector<std::uint32_t> tokens_;  // of all samples; kUntrained marks what is not predicted
  std::vector<std::int32_t> places_;
  std::vector<std::int64_t> ends_ = {0};     // of the samples before each, among the tokens
  std::vector<std::int64_t> targets_ = {0};  // to be predicted before each sample
};

}  // namespace cleave::data
