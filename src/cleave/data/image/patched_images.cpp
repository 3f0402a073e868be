#include "cleave/data/image/patched_images.h"

#include "cleave/base/check.h"

namespace cleave::data {

PatchedImages::PatchedImages(const std::filesystem::path& path, const ImageQuery& query)
    : set_(path), normaliser_(set_.description()), patch_(query.patch) {
  const SetDescription& set = set_.description();
  require(set.width == query.side && set.height == query.side && set.channels == query.channels,
          path.string(), " has images of ", set.width, " x ", set.height, " x ", set.channels,
          ", and the model reads ", query.side, " x ", query.side, " x ", query.channels,
          "; pack them with --size ", query.side, " --channels ", query.channels,
          ", or set model.image and model.channels");
  require(set.labels > 0, path.string(), " has no labels, and a classifier learns them");
  require(set.labels <= query.classes, path.string(), " has labels up to ", set.labels - 1,
          ", and model.classes is ", query.classes, "; set it to ", set.labels);
  for (std::int64_t i = 0; i < set_.size(); ++i) {
    const SampleEntry& entry = set_.entry(i);
    require(entry.images == 1 && entry.label >= 0, "sample ", i, " of ", path.string(), " has ",
            entry.images, " images and ", entry.label < 0 ? "no label" : "a label",
            "; a classifier needs one of each");
  }
}

void PatchedImages::read(std::int64_t sample, std::string_view input, const SampleRow& row) const {
  if (input == "labels") {
    CLEAVE_CHECK(row.ids.size() == 1, row.ids.size());
    row.ids[0] = set_.entry(sample).label;
    return;
  }
  CLEAVE_CHECK(input == "patches", "images have no ", input);
  read_patches(sample, row);
}

void PatchedImages::read_patches(std::int64_t sample, const SampleRow& row) const {
  const SetDescription& set = set_.description();
  CLEAVE_CHECK(std::ssize(row.values) == set.image_bytes(), row.values.size());
  set_.read_image(sample, 0, row.room);
  float* out = row.values.data();
  for (std::int64_t top = 0; top < set.height; top += patch_) {
    for (std::int64_t left = 0; left < set.width; left += patch_) {
      for (int channel = 0; channel < set.channels; ++channel) {
        const auto& table = normaliser_.table(channel);
        for (std::int64_t y = top; y < top + patch_; ++y) {
          const std::uint8_t* in = &row.room[(y * set.width + left) * set.channels + channel];
          for (std::int64_t x = 0; x < patch_; ++x) *out++ = table[in[x * set.channels]];
        }
      }
    }
  }
}

}  // namespace cleave::data
