#include "cleave/model/vlm_config.h"

#include "cleave/base/check.h"
#include "cleave/model/decoder_config.h"
#include "cleave/model/image_config.h"

namespace cleave::model {
namespace {

/// What sizes that a text_config leaves out stand for: those of the first Llama.
constexpr ModelShape kLlamaSizes = {.layers = 32,
                                    .hidden = 4096,
                                    .heads = 32,
                                    .kv_heads = 32,
                                    .ffn = 11008,
                                    .vocab = 32000,
                                    .context = 2048};

void read_language(const ConfigJson& config, ModelShape& shape) {
  const ConfigJson text = needed_table(config, "text_config");
  if (text.text("model_type", "llama") != "llama")
    text.refuse("model_type", "cleave joins images to the language models of Llama");
  read_decoder(text, {.sizes = &kLlamaSizes}, shape);
  text.refuse_if_true("attention_bias", "cleave has no biases around attention here");
  text.refuse_if_true("use_resampler", "cleave has no resampler");
  text.refuse_if_true("qk_layer_norms", "cleave has no norms of q and k here");
  shape.mlp_bias = text.truth("mlp_bias", false);
  // The resampler is not used, and the outer config has the shuffle.
  for (const char* key : {"perceiver_config", "pixel_shuffle_factor"}) text.pass_over(key);
  text.finish();
}

void write_language(const ModelShape& shape, ConfigJsonText& config) {
  ConfigJsonText text;
  text.set("model_type", std::string("llama"));
  write_decoder(shape, text);
  text.set("mlp_bias", shape.mlp_bias);
  text.set("tie_word_embeddings", shape.tie_embeddings);
  config.set("text_config", text);
}

void write_tower(const ModelShape& shape, const std::string& type, ConfigJsonText& config) {
  ConfigJsonText tower;
  write_image_tower(shape, type, tower);
  config.set("vision_config", tower);
}

void read_llava(const ConfigJson& config, ModelShape& shape) {
  read_language(config, shape);
  // Older directories say it of the text alone.
  shape.tie_embeddings = config.truth("tie_word_embeddings", false) || shape.tie_embeddings;
  const ConfigJson tower = needed_table(config, "vision_config");
  if (tower.text("model_type", "clip_vision_model") != "clip_vision_model")
    tower.refuse("model_type", "cleave has the tower of CLIP in this family");
  read_image_tower(tower,
                   {{.layers = 12, .hidden = 768, .heads = 12, .ffn = 3072, .class_token = true},
                    {.image = 224, .patch = 32},
                    "quick_gelu"},
                   shape);
  shape.image_token = config.whole("image_token_index", config.whole("image_token_id", 32000));
  if (config.whole("image_token_id", shape.image_token) != shape.image_token)
    config.refuse("image_token_id", "image_token_index is the same token by its older name");
  if (config.whole("vision_feature_layer", -2) != -2)
    config.refuse("vision_feature_layer", "cleave takes the layer before the last, which is -2");
  if (config.text("vision_feature_select_strategy", "default") != "default")
    config.refuse("vision_feature_select_strategy",
                  "cleave leaves the class token out, which is \"default\"");
  if (config.text("projector_hidden_act", "gelu") != "gelu")
    config.refuse("projector_hidden_act", "cleave has \"gelu\" there");
  if (!config.truth("multimodal_projector_bias", true))
    config.refuse("multimodal_projector_bias", "cleave's projector has biases");
  // These are for the image processor, and for losses that others compute.
  for (const char* key : {"image_seq_length", "ignore_index", "vocab_size"}) config.pass_over(key);
}

void write_llava(const ModelShape& shape, ConfigJsonText& config) {
  write_language(shape, config);
  write_tower(shape, "clip_vision_model", config);
  config.set("image_token_index", shape.image_token);
  config.set("image_seq_length", shape.image_rows());
  config.set("vision_feature_layer", std::int64_t{-2});
  config.set("vision_feature_select_strategy", std::string("default"));
  config.set("projector_hidden_act", std::string("gelu"));
  config.set("multimodal_projector_bias", true);
}

void read_smolvlm(const ConfigJson& config, ModelShape& shape) {
  read_language(config, shape);
  shape.tie_embeddings = config.truth("tie_word_embeddings", false);
  read_image_tower(needed_table(config, "vision_config"),
                   {{.layers = 12,
                     .hidden = 1152,
                     .heads = 16,
                     .ffn = 3072,
                     .norm_eps = 1e-6,
                     .class_token = false},
                    {.image = 224, .patch = 32},
                    "gelu_pytorch_tanh"},
                   shape);
  shape.image_token = config.whole("image_token_id", 128257);
  shape.shuffle = config.whole("scale_factor", 2);
  for (const char* key : {"_pad_token_id", "image_seq_len", "vocab_size"}) config.pass_over(key);
}

void write_smolvlm(const ModelShape& shape, ConfigJsonText& config) {
  write_language(shape, config);
  write_tower(shape, "smolvlm_vision", config);
  config.set("image_token_id", shape.image_token);
  config.set("scale_factor", shape.shuffle);
}

bool is_llava(const ModelShape& shape) {
  return shape.shuffle == 0 && shape.vision.class_token && shape.vision.deepstack.empty();
}

bool is_smolvlm(const ModelShape& shape) {
  return shape.shuffle > 0 && !shape.vision.class_token && shape.vision.deepstack.empty();
}

/// The first SmolVLMs go by the name of the architecture that they have taken over; their tensors
/// are called the same.
constexpr HuggingFace kIdefics3Names = {.model_type = "idefics3",
                                        .architecture = "Idefics3ForConditionalGeneration",
                                        .read = read_smolvlm,
                                        .write = write_smolvlm,
                                        .stored = stored_image_shape,
                                        .fits = [](const ModelShape&) { return false; }};

constexpr HuggingFace kSmolVlmNames = {.model_type = "smolvlm",
                                       .architecture = "SmolVLMForConditionalGeneration",
                                       .read = read_smolvlm,
                                       .write = write_smolvlm,
                                       .stored = stored_image_shape,
                                       .fits = is_smolvlm,
                                       .also = &kIdefics3Names};

}  // namespace

constinit const HuggingFace kVlmNames = {.model_type = "llava",
                                         .architecture = "LlavaForConditionalGeneration",
                                         .read = read_llava,
                                         .write = write_llava,
                                         .stored = stored_image_shape,
                                         .fits = is_llava,
                                         .also = &kSmolVlmNames};

}  // namespace cleave::model
