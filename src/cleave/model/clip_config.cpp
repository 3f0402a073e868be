#include "cleave/model/clip_config.h"

#include "cleave/model/image_config.h"

namespace cleave::model {
namespace {

/// What sizes that a text_config leaves out stand for.
struct TextDefaults {
  ModelShape sizes;
  std::string gelu;
};

const TextDefaults kClipTexts = {.sizes = {.layers = 12,
                                           .hidden = 512,
                                           .heads = 8,
                                           .ffn = 2048,
                                           .vocab = 49408,
                                           .context = 77,
                                           .norm_eps = 1e-5},
                                 .gelu = "quick_gelu"};
const TextDefaults kSiglipTexts = {.sizes = {.layers = 12,
                                             .hidden = 768,
                                             .heads = 12,
                                             .ffn = 3072,
                                             .vocab = 32000,
                                             .context = 64,
                                             .norm_eps = 1e-6},
                                   .gelu = "gelu_pytorch_tanh"};

/// The tower of images is read before it.
void read_text_tower(const ConfigJson& text, const TextDefaults& defaults, ModelShape& shape) {
  shape.layers = text.whole("num_hidden_layers", defaults.sizes.layers);
  shape.hidden = text.whole("hidden_size", defaults.sizes.hidden);
  shape.heads = text.whole("num_attention_heads", defaults.sizes.heads);
  shape.kv_heads = shape.heads;
  shape.ffn = text.whole("intermediate_size", defaults.sizes.ffn);
  shape.vocab = text.whole("vocab_size", defaults.sizes.vocab);
  shape.context = text.whole("max_position_embeddings", defaults.sizes.context);
  shape.norm_eps = text.number("layer_norm_eps", defaults.sizes.norm_eps);
  shape.tie_embeddings = false;
  if (read_gelu(text, "hidden_act", defaults.gelu) != shape.gelu)
    text.refuse("hidden_act", "cleave has one activation for both towers");
  for (const char* key : {"initializer_factor", "dropout"}) text.pass_over(key);
}

void write_text_tower(const ModelShape& shape, const std::string& type, ConfigJsonText& text) {
  text.set("model_type", type);
  text.set("num_hidden_layers", shape.layers);
  text.set("hidden_size", shape.hidden);
  text.set("num_attention_heads", shape.heads);
  text.set("intermediate_size", shape.ffn);
  text.set("vocab_size", shape.vocab);
  text.set("max_position_embeddings", shape.context);
  text.set("layer_norm_eps", shape.norm_eps);
  text.set("hidden_act", gelu_name(shape.gelu));
  // The defaults of their classes may lie outside of the vocabulary.
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"}) text.set_null(key);
}

void pass_over_beginnings(const ConfigJson& config) {
  for (const char* key : {"initializer_factor", "logit_scale_init_value", "tie_word_embeddings"})
    config.pass_over(key);
}

/// Where the text ends, whose row becomes its features, is where its highest token stands: so
/// OpenAI's own directories have it, which say 2 here.
constexpr std::int64_t kEndsAtHighestToken = 2;

/// Directories of the first versions have a second table, which counts where it is there.
ConfigJson clip_part(const ConfigJson& config, const std::string& key) {
  const std::optional<ConfigJson> first = config.table(key + "_dict");
  if (!first) return needed_table(config, key);
  config.pass_over(key);
  return *first;
}

void read_clip(const ConfigJson& config, ModelShape& shape) {
  read_image_tower(clip_part(config, "vision_config"),
                   {{.layers = 12, .hidden = 768, .heads = 12, .ffn = 3072, .class_token = true},
                    {.image = 224, .patch = 32},
                    "quick_gelu"},
                   shape);
  const ConfigJson text = clip_part(config, "text_config");
  read_text_tower(text, kClipTexts, shape);
  const std::int64_t end = text.whole("eos_token_id", 49407);
  if (end != kEndsAtHighestToken && end != shape.vocab - 1)
    text.refuse(
        "eos_token_id",
        "cleave takes the features of a text at its highest token, which is 2 or vocab_size - 1");
  text.pass_over("projection_dim");  // the outer one counts
  text.finish();
  shape.features = config.whole("projection_dim", 512);
  pass_over_beginnings(config);
}

void write_clip(const ModelShape& shape, ConfigJsonText& config) {
  ConfigJsonText text, tower;
  write_text_tower(shape, "clip_text_model", text);
  text.set("projection_dim", shape.features);
  text.set("eos_token_id", kEndsAtHighestToken);
  config.set("text_config", text);
  write_image_tower(shape, "clip_vision_model", tower);
  tower.set("projection_dim", shape.features);
  config.set("vision_config", tower);
  config.set("projection_dim", shape.features);
}

void read_siglip(const ConfigJson& config, ModelShape& shape) {
  read_image_tower(needed_table(config, "vision_config"),
                   {{.layers = 12,
                     .hidden = 768,
                     .heads = 12,
                     .ffn = 3072,
                     .norm_eps = 1e-6,
                     .class_token = false},
                    {.image = 224, .patch = 16},
                    "gelu_pytorch_tanh"},
                   shape);
  const ConfigJson text = needed_table(config, "text_config");
  read_text_tower(text, kSiglipTexts, shape);
  if (text.whole("projection_size", shape.hidden) != shape.vision.hidden)
    text.refuse("projection_size", "it is the hidden_size of the tower of images");
  text.finish();
  shape.features = shape.vision.hidden;
  pass_over_beginnings(config);
}

void write_siglip(const ModelShape& shape, ConfigJsonText& config) {
  ConfigJsonText text, tower;
  write_text_tower(shape, "siglip_text_model", text);
  text.set("projection_size", shape.vision.hidden);
  config.set("text_config", text);
  write_image_tower(shape, "siglip_vision_model", tower);
  config.set("vision_config", tower);
}

/// PyTorch's factor of the products is a number without dims.
Shape stored_clip_shape(const ModelShape& model, std::string_view name, const Shape& shape) {
  return name == "logit_scale" ? Shape() : stored_image_shape(model, name, shape);
}

}  // namespace

constinit const HuggingFace kClipNames = {.model_type = "clip",
                                          .architecture = "CLIPModel",
                                          .read = read_clip,
                                          .write = write_clip,
                                          .stored = stored_clip_shape};

constinit const HuggingFace kSiglipNames = {.model_type = "siglip",
                                            .architecture = "SiglipModel",
                                            .read = read_siglip,
                                            .write = write_siglip,
                                            .stored = stored_image_shape};

}  // namespace cleave::model
