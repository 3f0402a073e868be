#include <algorithm>

#include <sys/file.h>

#include "cleave/base/check.h"
#include "cleave/base/hash.h"
#include "cleave/data/image/image_set.h"
#include "cleave/data/image/image_set_format.h"

namespace cleave::data {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kFlushBytes = std::uint64_t{16} << 20;
constexpr std::uint32_t kSkipped = 0xffffffff;  // in place of the number of images

bool is_skipped(const SampleEntry& entry) {
  return entry.images == kSkipped;
}

fs::path with_ending(fs::path path, const char* ending) {
  return path += ending;
}

/// What the journal has of samples: its fingerprint, then an entry for each; a last one that was
/// cut off is left out.
std::vector<SampleEntry> journalled(const File& journal, std::uint64_t fingerprint) {
  const std::int64_t size = journal.size();
  std::uint64_t begun = 0;
  if (size < static_cast<std::int64_t>(sizeof(begun))) return {};
  journal.read(std::as_writable_bytes(std::span(&begun, 1)), 0);
  if (begun != fingerprint) return {};
  std::vector<SampleEntry> entries((static_cast<std::size_t>(size) - sizeof(begun)) /
                                   sizeof(SampleEntry));
  journal.read(std::as_writable_bytes(std::span(entries)), sizeof(begun));
  return entries;
}

}  // namespace

ImageSetWriter::ImageSetWriter(const fs::path& path, std::int64_t image_bytes,
                               std::uint64_t fingerprint)
    : path_(path),
      partial_(with_ending(path, ".partial")),
      journal_path_(with_ending(path, ".partial.index")),
      image_bytes_(image_bytes),
      data_(File::open_or_create(partial_)),
      journal_(File::open_or_create(journal_path_)) {
  require(::flock(data_.descriptor(), LOCK_EX | LOCK_NB) == 0, "another cleave is packing ",
          path.string(), " already; wait for it, or choose another --out");
  entries_ = journalled(File::open(journal_path_), fingerprint);
  for (const SampleEntry& entry : entries_)
    if (!is_skipped(entry)) end_ = end_of(entry);
  if (end_ == 0) end_ = sizeof(SetHeader);
  // Data is made durable before the journal that speaks of it; should a disk have it otherwise, the
  // work begins anew.
  if (static_cast<std::uint64_t>(data_.size()) < end_) {
    entries_.clear();
    end_ = sizeof(SetHeader);
  }
  resumed_ = std::ssize(entries_);
  data_.truncate(static_cast<std::int64_t>(end_));
  journal_.truncate(journal_size());
  journal_.write(std::as_bytes(std::span(&fingerprint, 1)), 0);
  flushed_ = resumed_;
  flushed_end_ = end_;
}

ImageSetWriter::~ImageSetWriter() {
  if (done_) return;
  try {
    flush();
  } catch (const IoError&) {  // the work up to here is done again
  }
}

std::uint64_t ImageSetWriter::end_of(const SampleEntry& entry) const {
  return entry.offset + entry.images * static_cast<std::uint64_t>(image_bytes_) + entry.text;
}

std::int64_t ImageSetWriter::journal_size() const {
  return static_cast<std::int64_t>(sizeof(std::uint64_t) + entries_.size() * sizeof(SampleEntry));
}

void ImageSetWriter::add(std::span<const std::byte> images, const Sample& sample) {
  const SampleEntry entry{.offset = end_,
                          .images = static_cast<std::uint32_t>(sample.images.size()),
                          .text = static_cast<std::uint32_t>(sample.text.size()),
                          .label = sample.label,
                          .sum = sample_sum(images, sample.text)};
  CLEAVE_CHECK(std::ssize(images) == std::ssize(sample.images) * image_bytes_, images.size());
  data_.write(images, static_cast<std::int64_t>(end_));
  if (!sample.text.empty())
    data_.write(std::as_bytes(std::span(sample.text)),
                static_cast<std::int64_t>(end_) + std::ssize(images));
  end_ = end_of(entry);
  entries_.push_back(entry);
  if (end_ - flushed_end_ >= kFlushBytes) flush();
}

void ImageSetWriter::skip() {
  entries_.push_back({.images = kSkipped});
}

void ImageSetWriter::flush() {
  data_.sync();
  const auto fresh = std::span(entries_).subspan(static_cast<std::size_t>(flushed_));
  journal_.write(std::as_bytes(fresh),
                 journal_size() - static_cast<std::int64_t>(fresh.size_bytes()));
  journal_.sync();
  flushed_ = std::ssize(entries_);
  flushed_end_ = end_;
}

SetDescription ImageSetWriter::finish(SetDescription description) {
  description.skipped = std::erase_if(entries_, is_skipped);
  description.labels = static_cast<std::int32_t>(description.classes.size());
  for (const SampleEntry& entry : entries_) {
    description.images += entry.images;
    description.labels = std::max(description.labels, entry.label + 1);
  }
  const std::string text = to_json(description);
  Hasher hasher;
  hasher.add(text);
  hasher.add(std::as_bytes(std::span(entries_)));
  SetHeader header{.description = end_,
                   .description_bytes = text.size(),
                   .index = end_ + text.size(),
                   .samples = entries_.size(),
                   .digest = hasher.digest()};
  header.sum = sum_of(header);
  data_.write(std::as_bytes(std::span(text)), static_cast<std::int64_t>(header.description));
  data_.write(std::as_bytes(std::span(entries_)), static_cast<std::int64_t>(header.index));
  data_.write(std::as_bytes(std::span(&header, 1)), 0);
  data_.sync();
  done_ = true;
  fs::rename(partial_, path_);
  fs::remove(journal_path_);
  sync_directory(path_.has_parent_path() ? path_.parent_path() : fs::path("."));
  return description;
}

void ImageSetWriter::abandon() {
  done_ = true;
  std::error_code ignored;
  fs::remove(partial_, ignored);
  fs::remove(journal_path_, ignored);
}

}  // namespace cleave::data
