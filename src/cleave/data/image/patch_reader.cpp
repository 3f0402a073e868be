#include "cleave/data/image/patch_reader.h"

#include "cleave/base/check.h"
#include "cleave/data/image/augment.h"

namespace cleave::data {

PatchReader::PatchReader(const ImageSet& images, const ImageQuery& query)
    : normaliser_(images.description()),
      patch_(query.patch),
      augment_(query.augment),
      seed_(static_cast<std::uint64_t>(query.seed)) {
  const SetDescription& set = images.description();
  require(set.width == query.side && set.height == query.side && set.channels == query.channels,
          images.path().string(), " has images of ", set.width, " x ", set.height, " x ",
          set.channels, ", and the model reads ", query.side, " x ", query.side, " x ",
          query.channels, "; pack them with --size ", query.side, " --channels ", query.channels,
          ", or set model.image and model.channels");
}

void PatchReader::read(const ImageSet& images, std::int64_t sample, std::int64_t image,
                       const SampleRow& row) const {
  const SetDescription& set = images.description();
  const auto bytes = static_cast<std::size_t>(set.image_bytes());
  const std::span<std::uint8_t> pixels = row.room.first(bytes);
  images.read_image(sample, image, pixels);
  if (!augment_.empty() && row.epoch != kAsItIs)
    apply(change_of(augment_, {seed_, row.epoch, sample, image}, set.width), set, pixels,
          row.room.subspan(bytes, bytes));
  to_patches(pixels, set, normaliser_, patch_, row.values);
}

void to_patches(std::span<const std::uint8_t> pixels, const SetDescription& set,
                const Normaliser& normaliser, std::int64_t patch, std::span<float> values) {
  CLEAVE_CHECK(std::ssize(values) == set.image_bytes(), values.size());
  float* out = values.data();
  if (patch == 1) {  // values in the order of the bytes
    for (int channel = 0; channel < set.channels; ++channel) {
      const float* table = normaliser.table(channel).data();
      for (std::size_t i = static_cast<std::size_t>(channel); i < values.size(); i += set.channels)
        out[i] = table[pixels[i]];
    }
    return;
  }
  for (std::int64_t top = 0; top < set.height; top += patch) {
    for (std::int64_t left = 0; left < set.width; left += patch) {
      for (int channel = 0; channel < set.channels; ++channel) {
        const auto& table = normaliser.table(channel);
        for (std::int64_t y = top; y < top + patch; ++y) {
          const std::uint8_t* in = &pixels[(y * set.width + left) * set.channels + channel];
          for (std::int64_t x = 0; x < patch; ++x) *out++ = table[in[x * set.channels]];
        }
      }
    }
  }
}

}  // namespace cleave::data
