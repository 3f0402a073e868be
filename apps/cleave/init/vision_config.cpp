#include <filesystem>
#include <memory>
#include <optional>

#include "init/purposes.h"

#include "cleave/base/check.h"
#include "cleave/data/image/image_set.h"
#include "cleave/data/image/pack.h"
#include "cleave/data/image/resize.h"

namespace cleave::app {
namespace {

constexpr std::string_view kVisionConfig =
    R"(# A vision transformer that learns to tell images apart. Every key: cleave reference config
cleave = "0.1"

[model]
kind = "vit"
layers = 4
hidden = 64
heads = 4
image = {image}         # side of the packed images, in pixels
patch = {patch}          # side of a patch; image is a multiple of it
channels = {channels}
classes = {classes}

[data]
path = {data}   # cleave data pack DIR --size {image} --out FILE makes such a set
validation = 0.1    # held out; or the path of a packed set of its own

[train]
steps = 200
batch = 32          # images per step
microbatch = 8      # of them, so many at once
lr = 2e-3
warmup = 20
weight_decay = 0.05
eval_every = 50     # steps; loss and accuracy of what is held out
out = {out}         # checkpoints, log.jsonl and the config as it was used

# Several devices: each is a thread with a memory of its own, and changes no bit.
[parallel]
pipeline = 1        # groups of layers, one after another
)";

constexpr std::int64_t kSide = 24;

/// Bars, diagonals and blobs in noise: four classes.
class Shapes : public data::SampleSource {
 public:
  std::int64_t size() const override { return 2000; }
  std::string name(std::int64_t index) const override { return "shape " + std::to_string(index); }
  std::vector<std::string> classes() const override {
    return {"lying bar", "standing bar", "diagonal", "blob"};
  }

  data::Sample read(std::int64_t index) const override {
    std::uint32_t random = static_cast<std::uint32_t>(index) * 2654435761u + 1;
    const auto draw = [&](std::int64_t below) {
      random = random * 1664525 + 1013904223;
      return static_cast<std::int64_t>(random >> 16) % below;
    };
    const auto label = static_cast<std::int32_t>(index % 4);
    const std::int64_t row = 4 + draw(kSide - 8), column = 4 + draw(kSide - 8);
    data::Image image{.width = kSide, .height = kSide, .channels = 1};
    for (std::int64_t y = 0; y < kSide; ++y) {
      for (std::int64_t x = 0; x < kSide; ++x) {
        const std::int64_t down = y - row, right = x - column;
        const bool inside = label == 0   ? down * down <= 1
                            : label == 1 ? right * right <= 1
                            : label == 2 ? (down - right) * (down - right) <= 1
                                         : down * down + right * right <= 9;
        image.pixels.push_back(static_cast<std::uint8_t>(draw(96) + (inside ? 144 : 0)));
      }
    }
    return {.images = {std::move(image)}, .label = label};
  }
};

void write_shapes(const std::filesystem::path& path) {
  const data::SetDescription shape{
      .width = kSide, .height = kSide, .channels = 1, .mean = {0.5}, .deviation = {0.5}};
  data::pack_samples(Shapes(), path,
                     {.shape = shape, .filter = &data::find_resize_filter("bicubic")},
                     {.on_done = [](std::int64_t) {}, .on_bad = [](const std::string&) {}});
}

/// Nothing if it is no packed set.
std::optional<data::SetDescription> description_of(const std::string& path) {
  if (!std::filesystem::is_regular_file(path)) return std::nullopt;
  try {
    return data::ImageSet(path).description();
  } catch (const UserError&) {
    return std::nullopt;
  }
}

/// Of the sides that divide the image's, the one that makes the patches of an image nearest to 49.
std::int64_t patch_of(std::int64_t side) {
  std::int64_t best = side;
  const auto distance = [&](std::int64_t patch) { return std::abs(side / patch - 7); };
  for (std::int64_t patch = 1; patch <= side; ++patch)
    if (side % patch == 0 && distance(patch) < distance(best)) best = patch;
  return best;
}

Filling fill_vision(const Belongings& given) {
  const std::optional<data::SetDescription> set = description_of(given.data);
  require(set.has_value(), given.data,
          " is no packed set of images; make one of a folder per class with cleave "
          "data pack ",
          given.data, " --size 64 --out images.set, and give --data images.set");
  require(set->labels >= 2 && set->width == set->height, given.data, " has ", set->labels,
          " classes and images of ", set->width, " x ", set->height,
          "; a vision transformer takes two classes or more, and square images");
  return {{"{image}", std::to_string(set->width)},
          {"{patch}", std::to_string(patch_of(set->width))},
          {"{channels}", std::to_string(set->channels)},
          {"{classes}", std::to_string(set->labels)}};
}

}  // namespace

Purpose vision_purpose() {
  return {.name = "vision",
          .about = "a vision transformer that learns the classes of your images",
          .run = "cleave train {config}",
          .sample = "shapes.set",
          .config = kVisionConfig,
          .write_sample = write_shapes,
          .fill = fill_vision};
}

}  // namespace cleave::app
