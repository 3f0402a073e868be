#include "cleave/data/image/feature_store.h"

#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <numeric>
#include <utility>

#include <sys/file.h>

#include "cleave/base/check.h"
#include "cleave/base/hash.h"

namespace cleave::data {
namespace {

namespace fs = std::filesystem;

constexpr std::array<char, 8> kFeatureMagic = {'c', 'l', 'v', 'f', 'e', 'a', 't', '1'};
constexpr std::string_view kFeatureInput = "features ";
constexpr std::int64_t kHashBytes = 8;  // after the features of an image

struct FeatureHeader {
  std::array<char, 8> magic = kFeatureMagic;
  std::uint64_t key = 0;
  std::int64_t images = 0;
  std::int64_t image_bytes = 0;
  std::array<std::int64_t, 4> unused = {};

  friend bool operator==(const FeatureHeader&, const FeatureHeader&) = default;
};
static_assert(sizeof(FeatureHeader) == 64);

FeatureHeader header_of(const FeatureShape& shape) {
  return {.key = shape.key, .images = shape.images, .image_bytes = shape.image_bytes()};
}

std::int64_t bytes_of(const FeatureShape& shape, std::size_t feature) {
  return shape.values[feature] * shape.element_bytes;
}

/// Where one of an image's features begins in the file.
std::int64_t offset_of(const FeatureShape& shape, std::int64_t image, std::size_t feature = 0) {
  const auto hashes = [](std::size_t count) {
    return kHashBytes * static_cast<std::int64_t>(count);
  };
  std::int64_t at = static_cast<std::int64_t>(sizeof(FeatureHeader)) +
                    image * (shape.image_bytes() + hashes(shape.values.size()));
  for (std::size_t f = 0; f < feature; ++f) at += bytes_of(shape, f) + kHashBytes;
  return at;
}

/// Whether a file begins with the header of `shape`.
bool begins_with(const File& file, const FeatureShape& shape) {
  if (file.size() < static_cast<std::int64_t>(sizeof(FeatureHeader))) return false;
  FeatureHeader header;
  file.read(std::as_writable_bytes(std::span(&header, 1)), 0);
  return header == header_of(shape);
}

/// Reads a feature of an image into `bytes`; false if its hash is another.
bool read_feature(const File& file, const FeatureShape& shape, std::int64_t image,
                  std::size_t feature, std::span<std::byte> bytes) {
  std::uint64_t hash = 0;
  const std::int64_t at = offset_of(shape, image, feature);
  file.read(bytes, at);
  file.read(std::as_writable_bytes(std::span(&hash, 1)), at + std::ssize(bytes));
  return hash == hash_of(bytes);
}

/// How many images a file has from the first on, each of them undamaged.
std::int64_t whole_images(const File& file, const FeatureShape& shape) {
  if (!begins_with(file, shape)) return 0;
  std::vector<std::byte> room(static_cast<std::size_t>(shape.image_bytes()));
  for (std::int64_t image = 0; image < shape.images; ++image) {
    if (file.size() < offset_of(shape, image + 1)) return image;
    for (std::size_t f = 0; f < shape.values.size(); ++f) {
      const auto bytes = std::span(room).first(static_cast<std::size_t>(bytes_of(shape, f)));
      if (!read_feature(file, shape, image, f, bytes)) return image;
    }
  }
  return shape.images;
}

}  // namespace

std::int64_t FeatureShape::image_bytes() const {
  return std::accumulate(values.begin(), values.end(), std::int64_t{0}) * element_bytes;
}

std::int64_t FeatureShape::file_bytes() const {
  return offset_of(*this, images);
}

std::int64_t feature_of(std::string_view input) {
  if (!input.starts_with(kFeatureInput)) return -1;
  std::int64_t feature = -1;
  std::from_chars(input.data() + kFeatureInput.size(), input.data() + input.size(), feature);
  return feature;
}

FeatureStore::FeatureStore(const fs::path& path, FeatureShape shape)
    : shape_(std::move(shape)), file_(File::open(path)) {
  require(begins_with(file_, shape_) && file_.size() == shape_.file_bytes(), path.string(),
          " has not the features of ", shape_.images, " images that its name promises; remove it");
}

void FeatureStore::read(std::int64_t image, std::int64_t feature, std::span<float> values) const {
  const auto index = static_cast<std::size_t>(feature);
  CLEAVE_CHECK(std::ssize(values) == shape_.values[index], values.size());
  // What is shorter stands at the end of the values, and grows from the front.
  const std::span<std::byte> bytes =
      std::as_writable_bytes(values).last(static_cast<std::size_t>(bytes_of(shape_, index)));
  require(read_feature(file_, shape_, image, index, bytes), path().string(),
          " was damaged since it was written; remove it");
  if (shape_.element_bytes == 4) return;
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint16_t half;
    std::memcpy(&half, bytes.data() + 2 * i, 2);
    values[i] = std::bit_cast<float>(std::uint32_t{half} << 16);
  }
}

FeatureWriter::FeatureWriter(const fs::path& path, const FeatureShape& shape)
    : shape_(shape),
      path_(path),
      partial_(path.string() + ".partial"),
      file_(File::open_or_create(partial_)) {
  require(::flock(file_.descriptor(), LOCK_EX | LOCK_NB) == 0, "another cleave is writing ",
          path.string(), " already; wait for it");
  resumed_ = whole_images(File::open(partial_), shape_);
  written_ = resumed_;
  file_.truncate(written_ == 0 ? 0 : offset_of(shape_, written_));
  const FeatureHeader header = header_of(shape_);
  file_.write(std::as_bytes(std::span(&header, 1)), 0);
}

void FeatureWriter::add(std::span<const std::byte> features) {
  CLEAVE_CHECK(std::ssize(features) == shape_.image_bytes(), features.size());
  const std::byte* from = features.data();
  for (std::size_t f = 0; f < shape_.values.size(); ++f) {
    const std::span<const std::byte> bytes(from, static_cast<std::size_t>(bytes_of(shape_, f)));
    const std::uint64_t hash = hash_of(bytes);
    const std::int64_t at = offset_of(shape_, written_, f);
    file_.write(bytes, at);
    file_.write(std::as_bytes(std::span(&hash, 1)), at + std::ssize(bytes));
    from += bytes.size();
  }
  ++written_;
}

void FeatureWriter::finish() {
  CLEAVE_CHECK(written_ == shape_.images, written_, " of ", shape_.images);
  file_.sync();
  fs::rename(partial_, path_);
  sync_directory(path_.parent_path().empty() ? fs::path(".") : path_.parent_path());
}

}  // namespace cleave::data
