#include "cleave/train/save/image_files.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "cleave/base/file.h"
#include "cleave/base/shallow_json.h"
#include "cleave/checkpoint/weight_files.h"
#include "cleave/data/image/image_set.h"

namespace cleave::train {
namespace {

namespace fs = std::filesystem;

/// Pillow's numbers of the filters that pack images.
constexpr std::array<std::pair<std::string_view, int>, 4> kPillowFilters = {
    {{"lanczos", 1}, {"bilinear", 2}, {"bicubic", 3}, {"box", 4}}};

/// The first set that the config names, if it is here: it may be with its owner, or gone.
std::optional<data::SetDescription> packed_set(const Config& config) {
  if (config.model.classes == 0 || config.data.path.empty()) return std::nullopt;
  const fs::path path = config.data.path[0].path;
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return std::nullopt;
  try {
    return data::describe_set(path);
  } catch (const std::exception&) {
    return std::nullopt;  // a checkpoint is worth more than what its classes are called
  }
}

}  // namespace

std::string image_preparation_file(const Config& config) {
  const auto set = packed_set(config);
  if (!set) return "";
  const auto filter =
      std::ranges::find(kPillowFilters, set->filter, &std::pair<std::string_view, int>::first);
  if (filter == kPillowFilters.end()) return "";
  const nlohmann::ordered_json size = {{"height", set->height}, {"width", set->width}};
  nlohmann::ordered_json json;
  if (set->fit == "crop") {
    // Of the processors that every edition of transformers has, this one cuts off what is too long.
    json["image_processor_type"] = "BitImageProcessor";
    json["do_convert_rgb"] = set->channels == 3;
    json["size"]["shortest_edge"] = std::max(set->height, set->width);
    json["do_center_crop"] = true;
    json["crop_size"] = size;
  } else {
    json["image_processor_type"] = "ViTImageProcessor";
    json["size"] = size;
  }
  json["do_resize"] = true;
  json["resample"] = filter->second;
  json["do_rescale"] = true;
  json["rescale_factor"] = 1.0 / 255;
  json["do_normalize"] = true;
  json["image_mean"] = set->mean;
  json["image_std"] = set->deviation;
  return json.dump(2) + "\n";
}

std::vector<std::string> class_names(const Config& config, const fs::path& beside) {
  if (config.model.classes == 0) return {};
  const fs::path file = beside / checkpoint::kConfigFile;
  if (fs::exists(file)) {
    const auto json = parse_shallow_or_discard<nlohmann::json>(read_text(file));
    const auto given = json.is_object() ? json.value("id2label", nlohmann::json()) : json;
    std::vector<std::string> names;
    for (std::int64_t i = 0; given.is_object() && i < config.model.classes; ++i) {
      const auto name = given.find(std::to_string(i));
      if (name == given.end() || !name->is_string()) break;
      names.push_back(name->get<std::string>());
    }
    if (std::ssize(names) == config.model.classes) return names;
  }
  const auto set = packed_set(config);
  return set ? set->classes : std::vector<std::string>();
}

std::string with_class_names(const std::string& text, const std::vector<std::string>& names) {
  if (names.empty()) return text;
  auto json = parse_shallow<nlohmann::ordered_json>(text);
  if (!json.contains("id2label")) return text;
  auto& by_number = json["id2label"];
  auto& by_name = json["label2id"] = nlohmann::ordered_json::object();
  for (std::size_t i = 0; i < by_number.size(); ++i) {
    auto& name = by_number[std::to_string(i)];
    if (i < names.size()) name = names[i];
    by_name[name.get<std::string>()] = i;
  }
  return json.dump(2, ' ', /*ensure_ascii=*/false,
                   nlohmann::ordered_json::error_handler_t::replace) +
         "\n";
}

}  // namespace cleave::train
