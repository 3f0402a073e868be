#include "cleave/train/generate/image_preparation.h"

#include <array>
#include <cmath>
#include <string>

#include <nlohmann/json.hpp>

#include "cleave/base/check.h"
#include "cleave/base/file.h"
#include "cleave/base/shallow_json.h"

namespace cleave::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// Filters by Pillow's numbers, of those that are known here.
constexpr std::array<std::string_view, 5> kResampling = {"", "lanczos", "bilinear", "bicubic",
                                                         "box"};

/// What the file says, with its keys for messages.
class ProcessorJson {
 public:
  explicit ProcessorJson(const fs::path& directory) {
    path_ = directory / "preprocessor_config.json";
    if (fs::exists(path_)) {
      root_ = parsed();
      return;
    }
    path_ = directory / "processor_config.json";
    if (fs::exists(path_)) root_ = parsed().value("image_processor", json());
    require(root_.is_object(), directory.string(),
            " says nowhere how images are made ready for its model (preprocessor_config.json is "
            "missing); fetch that file too");
  }

  /// Throws UserError naming the key and its value.
  void need(bool ok, const char* key, const std::string& rule) const {
    require(ok, path_.string(), " has ", key, " = ", find(key).dump(), ", but ", rule);
  }

  json find(const char* key) const {
    const auto found = root_.find(key);
    return found == root_.end() ? json() : *found;
  }

  bool flag(const char* key, bool otherwise) const {
    const json value = find(key);
    if (value.is_null()) return otherwise;
    need(value.is_boolean(), key, "it must be true or false");
    return value.get<bool>();
  }

  double real(const char* key, double otherwise) const {
    const json value = find(key);
    if (value.is_null()) return otherwise;
    need(value.is_number(), key, "it must be a number");
    return value.get<double>();
  }

  /// One number for each channel; a single one is for all.
  std::vector<double> by_channel(const char* key, std::int64_t channels, double otherwise) const {
    const json value = find(key);
    const auto count = static_cast<std::size_t>(channels);
    if (value.is_null()) return std::vector<double>(count, otherwise);
    if (value.is_number()) return std::vector<double>(count, value.get<double>());
    bool sound = value.is_array() && value.size() == count;
    for (const json& number : value) sound = sound && number.is_number();
    need(sound, key, detail::concat("the model's images have ", channels, " channels"));
    return value.get<std::vector<double>>();
  }

 private:
  json parsed() const {
    try {
      const json root = parse_shallow<json>(read_text(path_));
      if (root.is_object()) return root;
    } catch (const UserError&) {
      throw;
    } catch (const std::exception&) {
    }
    throw UserError(path_.string() + " is no JSON object; fetch it again");
  }

  fs::path path_;
  json root_;
};

/// {"height": h, "width": w}, or one number for both: h and w; {0, 0} where it says neither.
std::pair<std::int64_t, std::int64_t> sides_of(const json& size) {
  if (size.is_number_integer()) return {size.get<std::int64_t>(), size.get<std::int64_t>()};
  const auto side = [&](const char* key) {
    const json value = size.is_object() ? size.value(key, json()) : json();
    return value.is_number_integer() ? value.get<std::int64_t>() : std::int64_t{0};
  };
  return {side("height"), side("width")};
}

/// How images come to the size that the model reads.
data::Fit fit_of(const ProcessorJson& processor, std::int64_t side) {
  const json size = processor.find("size");
  const std::pair wanted{side, side};
  const std::string rule = detail::concat("the model reads images of ", side, " x ", side);
  processor.need(processor.flag("do_resize", true), "do_resize",
                 "images of any size must come to that of the model");
  processor.need(
      !processor.flag("do_pad", false) || !size.is_object() || size.contains("longest_edge"),
      "do_pad", "images are not filled up to squares here");
  if (size.is_object() && size.contains("longest_edge")) {  // tiles, of which one is all there is
    const json tile = processor.find("max_image_size");
    processor.need(tile.is_object() && tile.value("longest_edge", json()) == json(side),
                   "max_image_size", rule);
    return data::Fit::Stretch;
  }
  const bool shortest = size.is_object() && size.contains("shortest_edge");
  const bool cropped = processor.flag("do_center_crop", shortest);
  if (cropped) processor.need(sides_of(processor.find("crop_size")) == wanted, "crop_size", rule);
  if (!shortest) {
    processor.need(sides_of(size) == wanted, "size", rule);
    return data::Fit::Stretch;
  }
  processor.need(size["shortest_edge"] == json(side), "size", rule);
  processor.need(cropped, "do_center_crop", "without it images would not be squares");
  return data::Fit::Crop;
}

}  // namespace

data::PackOptions image_preparation(const fs::path& directory, const ModelShape& shape) {
  const ProcessorJson processor(directory);
  data::PackOptions options;
  options.fit = fit_of(processor, shape.image);
  processor.need(processor.flag("do_rescale", true), "do_rescale",
                 "bytes always become 0 … 1 here");
  processor.need(std::abs(processor.real("rescale_factor", 1.0 / 255) * 255 - 1) < 1e-6,
                 "rescale_factor", "bytes always become 0 … 1 here");
  const bool normalised = processor.flag("do_normalize", true);
  options.shape = {.width = shape.image,
                   .height = shape.image,
                   .channels = static_cast<int>(shape.channels),
                   .mean = std::vector<double>(static_cast<std::size_t>(shape.channels), 0.0),
                   .deviation = std::vector<double>(static_cast<std::size_t>(shape.channels), 1.0)};
  if (normalised) {
    options.shape.mean = processor.by_channel("image_mean", shape.channels, 0.5);
    options.shape.deviation = processor.by_channel("image_std", shape.channels, 0.5);
    for (const double deviation : options.shape.deviation)
      processor.need(deviation > 0, "image_std", "deviations must be above 0");
  }
  const double filter = processor.real("resample", 3);
  processor.need(filter == 1 || filter == 2 || filter == 3 || filter == 4, "resample",
                 "known are 1 (lanczos), 2 (bilinear), 3 (bicubic) and 4 (box)");
  options.filter = &data::find_resize_filter(kResampling[static_cast<std::size_t>(filter)]);
  return options;
}

}  // namespace cleave::train
