#include "cleave/model/image_config.h"

#include <algorithm>
#include <utility>

namespace cleave::model {
namespace {

constexpr std::pair<std::string_view, GeluForm> kGelus[] = {{"gelu", GeluForm::Exact},
                                                            {"gelu_pytorch_tanh", GeluForm::Tanh},
                                                            {"gelu_new", GeluForm::Tanh},
                                                            {"quick_gelu", GeluForm::Quick}};

}  // namespace

GeluForm read_gelu(const ConfigJson& config, std::string_view key, const std::string& otherwise) {
  const std::string name = config.text(key, otherwise);
  const auto* found = std::ranges::find(kGelus, name, [](const auto& row) { return row.first; });
  if (found == std::end(kGelus))
    config.refuse(key, "cleave has \"gelu\", \"gelu_pytorch_tanh\" and \"quick_gelu\" here");
  return found->second;
}

std::string gelu_name(GeluForm form) {
  return std::string(
      std::ranges::find(kGelus, form, [](const auto& row) { return row.second; })->first);
}

void read_image(const ConfigJson& config, const ImageDefaults& defaults, ModelShape& shape) {
  shape.image = config.whole("image_size", defaults.image);
  shape.patch = config.whole("patch_size", defaults.patch);
  shape.channels = config.whole("num_channels", 3);
  if (shape.patch < 1 || shape.image < shape.patch)
    config.refuse("patch_size", "an image has at least one patch of at least one pixel");
}

void write_image(const ModelShape& shape, ConfigJsonText& config) {
  config.set("image_size", shape.image);
  config.set("patch_size", shape.patch);
  config.set("num_channels", shape.channels);
}

ConfigJson needed_table(const ConfigJson& config, std::string_view key) {
  const std::optional<ConfigJson> part = config.table(key);
  if (!part) config.refuse(key, "cleave needs it to know the model");
  return *part;
}

void read_image_tower(const ConfigJson& tower, const TowerDefaults& defaults, ModelShape& shape) {
  VisionShape& vision = shape.vision;
  vision.layers = tower.whole("num_hidden_layers", defaults.sizes.layers);
  vision.hidden = tower.whole("hidden_size", defaults.sizes.hidden);
  vision.heads = tower.whole("num_attention_heads", defaults.sizes.heads);
  vision.ffn = tower.whole("intermediate_size", defaults.sizes.ffn);
  vision.norm_eps = tower.number("layer_norm_eps", defaults.sizes.norm_eps);
  vision.class_token = defaults.sizes.class_token;
  shape.gelu = read_gelu(tower, "hidden_act", defaults.gelu);
  read_image(tower, defaults.image, shape);
  if (!tower.truth("vision_use_head", true))
    tower.refuse("vision_use_head", "cleave's tower ends in its head");
  // Of a contrastive head, and of how images are cut up before the tower sees them.
  for (const char* key : {"projection_dim", "vocab_size", "initializer_factor", "max_image_size",
                          "size", "tie_word_embeddings", "use_base_siglip"})
    tower.pass_over(key);
  tower.finish();
}

void write_image_tower(const ModelShape& shape, const std::string& type, ConfigJsonText& tower) {
  tower.set("model_type", type);
  tower.set("num_hidden_layers", shape.vision.layers);
  tower.set("hidden_size", shape.vision.hidden);
  tower.set("num_attention_heads", shape.vision.heads);
  tower.set("intermediate_size", shape.vision.ffn);
  tower.set("layer_norm_eps", shape.vision.norm_eps);
  tower.set("hidden_act", gelu_name(shape.gelu));
  write_image(shape, tower);
}

Shape stored_image_shape(const ModelShape& model, std::string_view name, const Shape& shape) {
  if (name.ends_with("patch_embeddings.projection.weight") ||
      name.ends_with("embeddings.patch_embedding.weight"))
    return {shape[0], model.channels, model.patch, model.patch};
  if (name.ends_with(".cls_token")) return {1, 1, shape.elements()};
  if (name.ends_with(".position_embeddings")) return {1, shape[0], shape[1]};
  if (name.ends_with(".class_embedding")) return {shape.elements()};
  return shape;
}

}  // namespace cleave::model
