#include "cleave/data/image/image_set.h"

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "cleave/base/check.h"
#include "cleave/base/hash.h"
#include "cleave/base/shallow_json.h"
#include "cleave/base/whole_number.h"
#include "cleave/data/image/image_set_format.h"

namespace cleave::data {
namespace {

SetHeader read_header(const File& file) {
  const std::string path = file.path().string();
  SetHeader header;
  require(file.size() >= static_cast<std::int64_t>(sizeof(header)), path,
          " is no packed set of images; make one with cleave data pack");
  file.read(std::as_writable_bytes(std::span(&header, 1)), 0);
  require(header.magic == kSetMagic, path,
          " is no packed set of images (it begins with other bytes); make one with cleave data "
          "pack");
  const auto size = static_cast<std::uint64_t>(file.size());
  require(header.sum == sum_of(header) && header.description_bytes <= size &&
              header.samples <= size / sizeof(SampleEntry) &&
              header.index + header.samples * sizeof(SampleEntry) == size,
          path, " was cut off or damaged; pack it again");
  return header;
}

/// Whether every image of the set has pixels, and every channel its numbers.
bool is_sound(const SetDescription& d) {
  const auto one_per_channel = [&](const std::vector<double>& numbers) {
    return std::ssize(numbers) == d.channels &&
           std::ranges::all_of(numbers, [](double number) { return std::isfinite(number); });
  };
  constexpr std::int64_t kLongestSide = 1 << 20;
  const auto is_side = [](std::int64_t side) { return 1 <= side && side <= kLongestSide; };
  return is_side(d.width) && is_side(d.height) && (d.channels == 1 || d.channels == 3) &&
         d.capacity >= 1 && d.labels >= 0 && one_per_channel(d.mean) &&
         one_per_channel(d.deviation) &&
         std::ranges::all_of(d.deviation, [](double deviation) { return deviation > 0; });
}

std::string description_text(const File& file, const SetHeader& header) {
  std::string text(header.description_bytes, '\0');
  file.read(std::as_writable_bytes(std::span(text)), static_cast<std::int64_t>(header.description));
  return text;
}

}  // namespace

SetDescription describe_set(const std::filesystem::path& path) {
  const File file = File::open(path);
  return read_description(description_text(file, read_header(file)), path.string());
}

std::uint64_t sum_of(const SetHeader& header) {
  const auto bytes = std::as_bytes(std::span(&header, 1));
  return hash_of(bytes.first(bytes.size() - sizeof(header.sum)));
}

std::uint32_t sample_sum(std::span<const std::byte> images, std::string_view text) {
  Hasher hasher;
  hasher.add(images);
  hasher.add(text);
  return static_cast<std::uint32_t>(hasher.digest());
}

std::string to_json(const SetDescription& d) {
  return nlohmann::json{{"width", d.width},       {"height", d.height}, {"channels", d.channels},
                        {"capacity", d.capacity}, {"mean", d.mean},     {"deviation", d.deviation},
                        {"fit", d.fit},           {"filter", d.filter}, {"classes", d.classes},
                        {"labels", d.labels},     {"images", d.images}, {"skipped", d.skipped}}
      .dump();
}

SetDescription read_description(const std::string& text, const std::string& path) {
  try {
    const auto json = parse_shallow<nlohmann::json>(text);
    SetDescription d;
    const auto read = [&](auto& number, const char* key) {
      number = whole_number<std::remove_reference_t<decltype(number)>>(json.at(key));
    };
    read(d.width, "width");
    read(d.height, "height");
    read(d.channels, "channels");
    read(d.capacity, "capacity");
    d.mean = json.at("mean").get<std::vector<double>>();
    d.deviation = json.at("deviation").get<std::vector<double>>();
    d.fit = json.value("fit", "");
    d.filter = json.value("filter", "");
    d.classes = json.at("classes").get<std::vector<std::string>>();
    read(d.labels, "labels");
    read(d.images, "images");
    read(d.skipped, "skipped");
    require(is_sound(d), "a description that describes nothing");
    return d;
  } catch (const std::exception&) {
    throw UserError(path + " has a description that cannot be read; pack it again");
  }
}

ImageSet::ImageSet(const std::filesystem::path& path) : file_(File::open(path)) {
  const SetHeader header = read_header(file_);
  const std::string text = description_text(file_, header);
  index_.resize(header.samples);
  file_.read(std::as_writable_bytes(std::span(index_)), static_cast<std::int64_t>(header.index));
  Hasher hasher;
  hasher.add(text);
  hasher.add(std::as_bytes(std::span(index_)));
  digest_ = hasher.digest();
  require(digest_ == header.digest, path.string(), " is damaged; pack it again");
  description_ = read_description(text, path.string());
  for (const SampleEntry& entry : index_)
    require(entry.label >= kNoLabel && entry.label < description_.labels, path.string(),
            " has a label ", entry.label, ", and its labels end before ", description_.labels,
            "; pack it again");
}

void ImageSet::read_image(std::int64_t sample, std::int64_t image,
                          std::span<std::uint8_t> pixels) const {
  const SampleEntry& at = index_[sample];
  CLEAVE_CHECK(image >= 0 && image < at.images, image, " of ", at.images);
  CLEAVE_CHECK(std::ssize(pixels) == description_.image_bytes(), pixels.size());
  const auto bytes = std::as_writable_bytes(pixels);
  file_.read(bytes, static_cast<std::int64_t>(at.offset) + image * description_.image_bytes());
  if (at.images != 1 || at.text != 0) return;
  require(static_cast<std::uint32_t>(hash_of(bytes)) == at.sum, "sample ", sample, " of ",
          path().string(), " is damaged; pack it again");
}

std::string ImageSet::read_text(std::int64_t sample) const {
  const SampleEntry& at = index_[sample];
  std::string text(at.text, '\0');
  file_.read(std::as_writable_bytes(std::span(text)),
             static_cast<std::int64_t>(at.offset) + at.images * description_.image_bytes());
  return text;
}

}  // namespace cleave::data
