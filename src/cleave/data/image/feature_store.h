#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/base/file.h"

namespace cleave::data {

/// What a file of features holds, for each image of a packed set in turn.
struct FeatureShape {
  std::uint64_t key = 0;  ///< of all that decides a bit of them
  std::int64_t images = 0;
  std::int64_t element_bytes = 4;         ///< 4: f32, 2: bf16
  std::vector<std::int64_t> values = {};  ///< [feature] of an image

  /// What the features of an image take, one after another.
  std::int64_t image_bytes() const;
  /// What the whole file takes.
  std::int64_t file_bytes() const;

  friend bool operator==(const FeatureShape&, const FeatureShape&) = default;
};

/// k of the input "features k" of a model, which reads feature k in place of images; -1 if the
/// input is none of these.
std::int64_t feature_of(std::string_view input);

/// The features of the images of a packed set, computed once and read by number.
///
///     header (64 bytes) | of each image its features, each with a hash after it
class FeatureStore {
 public:
  /// Throws UserError: no such file, of other images or weights, or cut off.
  FeatureStore(const std::filesystem::path& path, FeatureShape shape);

  const FeatureShape& shape() const { return shape_; }
  const std::filesystem::path& path() const { return file_.path(); }

  /// Fills `values` with a feature of an image. Allocates nothing; several threads may read at
  /// once. Throws UserError if the file was damaged.
  void read(std::int64_t image, std::int64_t feature, std::span<float> values) const;

 private:
  FeatureShape shape_;
  File file_;
};

/// Writes such a file so that it appears under its name when it is whole. Until then it is
/// `<path>.partial`, from where a later run goes on.
class FeatureWriter {
 public:
  /// Throws UserError if another process writes the same file; IoError if the disk is full.
  FeatureWriter(const std::filesystem::path& path, const FeatureShape& shape);

  /// Images that an earlier run has computed.
  std::int64_t resumed() const { return resumed_; }

  /// The next image's features, one after another.
  void add(std::span<const std::byte> features);

  /// Once all images have been added.
  void finish();

 private:
  FeatureShape shape_;
  std::filesystem::path path_;
  std::filesystem::path partial_;
  File file_;
  std::int64_t resumed_ = 0;
  std::int64_t written_ = 0;  // images
};

}  // namespace cleave::data
