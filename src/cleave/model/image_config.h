#pragma once

#include <string>
#include <string_view>

#include "cleave/model/config_json.h"
#include "cleave/model/model_shape.h"
#include "cleave/spec/shape.h"

namespace cleave::model {

// What the config.json and the tensors of models that read images have in common.

/// The gelu that an activation of Hugging Face's names is. Throws UserError on any other.
GeluForm read_gelu(const ConfigJson& config, std::string_view key, const std::string& otherwise);
std::string gelu_name(GeluForm form);

/// Sizes of images and their patches.
struct ImageDefaults {
  std::int64_t image = 224;
  std::int64_t patch = 16;
};
void read_image(const ConfigJson& config, const ImageDefaults& defaults, ModelShape& shape);
void write_image(const ModelShape& shape, ConfigJsonText& config);

/// An object inside a config.json. Throws UserError if it is not there.
ConfigJson needed_table(const ConfigJson& config, std::string_view key);

/// What sizes that a vision_config leaves out stand for.
struct TowerDefaults {
  VisionShape sizes;
  ImageDefaults image;
  std::string gelu;
};

/// The vision_config of a model with a tower of images: as it is read, and its keys as they are
/// written.
void read_image_tower(const ConfigJson& tower, const TowerDefaults& defaults, ModelShape& shape);
void write_image_tower(const ModelShape& shape, const std::string& type, ConfigJsonText& tower);

/// The shape that Hugging Face's tools give to a tensor, with the same elements in the same order:
/// patches are embedded by a convolution, and learned rows may have dims of 1 before them.
Shape stored_image_shape(const ModelShape& model, std::string_view name, const Shape& shape);

}  // namespace cleave::model
