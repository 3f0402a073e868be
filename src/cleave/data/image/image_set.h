#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "cleave/base/file.h"
#include "cleave/data/image/sample_source.h"

namespace cleave::data {

/// What the samples of a packed set have in common.
struct SetDescription {
  std::int64_t width = 0;
  std::int64_t height = 0;
  int channels = 3;
  std::int64_t capacity = 1;  ///< most images of a sample
  /// [channel] A byte b is the number (b / 255 - mean) / deviation.
  std::vector<double> mean = {};
  std::vector<double> deviation = {};
  std::string fit = {};                   ///< "crop" or "stretch"; older sets do not say
  std::string filter = {};                ///< that resized them, such as "bicubic"
  std::vector<std::string> classes = {};  ///< names, if labels have them
  std::int32_t labels = 0;                ///< one more than the highest label; 0: there are none
  std::int64_t images = 0;
  std::int64_t skipped = 0;  ///< samples that could not be used

  std::int64_t image_bytes() const { return width * height * channels; }
};

/// Where a sample lies in a packed set.
struct SampleEntry {
  std::uint64_t offset = 0;  ///< of its images, which its text follows
  std::uint32_t images = 0;
  std::uint32_t text = 0;  ///< bytes
  std::int32_t label = kNoLabel;
  std::uint32_t sum = 0;  ///< of images and text

  friend bool operator==(const SampleEntry&, const SampleEntry&) = default;
};

/// What a packed set says of itself, without its index. Throws UserError as ImageSet does.
SetDescription describe_set(const std::filesystem::path& path);

/// The sum of a sample's bytes, by which damage is noticed.
std::uint32_t sample_sum(std::span<const std::byte> images, std::string_view text);

/// A packed set of samples with images of one size, read by number.
///
///     header (64 bytes) | images and text of each sample | description (JSON) | index
///
/// The index has an entry for each sample; the header says where both begin.
class ImageSet {
 public:
  /// Throws UserError: no packed set, cut off, damaged.
  explicit ImageSet(const std::filesystem::path& path);

  const SetDescription& description() const { return description_; }
  std::int64_t size() const { return std::ssize(index_); }
  const SampleEntry& entry(std::int64_t sample) const { return index_[sample]; }
  const std::filesystem::path& path() const { return file_.path(); }

  /// A hash of all samples: it changes with any of their bytes.
  std::uint64_t digest() const { return digest_; }

  /// Fills `pixels` with an image of a sample. Allocates nothing. Throws UserError if the file was
  /// damaged since it was packed, which shows where a sample has one image and no text.
  void read_image(std::int64_t sample, std::int64_t image, std::span<std::uint8_t> pixels) const;
  std::string read_text(std::int64_t sample) const;

 private:
  File file_;
  SetDescription description_;
  std::vector<SampleEntry> index_;
  std::uint64_t digest_ = 0;
};

/// Writes a packed set so that it appears under its name when it is whole. Until then the samples
/// lie in `<path>.partial`, and what is known of them in `<path>.partial.index`, from where a later
/// run goes on.
class ImageSetWriter {
 public:
  /// `fingerprint`: of everything that decides what the samples are; work that was begun with
  /// another one is not gone on with. Throws UserError if another process writes the same set.
  ImageSetWriter(const std::filesystem::path& path, std::int64_t image_bytes,
                 std::uint64_t fingerprint);

  /// Samples of the source that earlier runs have dealt with, packed or skipped.
  std::int64_t resumed() const { return resumed_; }

  /// What was added survives the end of the process, but for the last 16 MiB if it was killed.
  void add(std::span<const std::byte> images, const Sample& sample);
  void skip();

  /// Completes the set; counts and labels in the description are set here.
  SetDescription finish(SetDescription description);

  /// Takes back what was written.
  void abandon();

  ~ImageSetWriter();

 private:
  void flush();
  std::uint64_t end_of(const SampleEntry& entry) const;
  std::int64_t journal_size() const;

  std::filesystem::path path_;
  std::filesystem::path partial_;
  std::filesystem::path journal_path_;
  std::int64_t image_bytes_;
  File data_;
  File journal_;
  std::vector<SampleEntry> entries_;  // with skipped ones
  std::int64_t flushed_ = 0;          // entries in the journal
  std::uint64_t end_ = 0;             // of the data
  std::uint64_t flushed_end_ = 0;     // of the data that the journal speaks of
  std::int64_t resumed_ = 0;
  bool done_ = false;  // finished or abandoned
};

}  // namespace cleave::data
