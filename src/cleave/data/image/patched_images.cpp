#include "cleave/data/image/patched_images.h"

#include "cleave/base/check.h"

namespace cleave::data {

PatchedImages::PatchedImages(const std::filesystem::path& path, const ImageQuery& query)
    : set_(path), patches_(set_, query) {
  const SetDescription& set = set_.description();
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
  patches_.read(set_, sample, 0, row);
}

}  // namespace cleave::data
