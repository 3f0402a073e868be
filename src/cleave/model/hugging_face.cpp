#include "cleave/model/hugging_face.h"

#include "cleave/base/check.h"

namespace cleave::model {

namespace {

void write_keys(const HuggingFace& names, const ModelShape& shape, ConfigJsonText& config) {
  config.set("architectures", std::vector{std::string(names.architecture)});
  config.set("model_type", std::string(names.model_type));
  names.write(shape, config);
  // Which tokens begin and end a text is for generation_config.json and the tokenizer to say; the
  // defaults of the classes may lie outside of the vocabulary. Padding is part of the model.
  for (const char* key : {"bos_token_id", "eos_token_id"}) config.set_null(key);
  if (shape.pad_token < 0) config.set_null("pad_token_id");
  config.set("tie_word_embeddings", shape.tie_embeddings);
}

/// Whether the config.json of a model describes it: a key that their classes do not have, such as
/// the window of a llama, would be lost there without a word.
bool describes(const HuggingFace& names, ModelShape shape) {
  shape.vision.cached = false;
  try {
    ConfigJsonText text;
    write_keys(names, shape, text);
    const ConfigJson config(text.text(), "config.json");
    ModelShape again{.kind = shape.kind};
    names.read(config, again);
    config.finish();
    return graph_of(again, {.sequence = 1}) == graph_of(shape, {.sequence = 1});
  } catch (const UserError&) {
    return false;
  }
}

/// Null if Hugging Face's tools do not know the family.
const HuggingFace* names_of(const ModelShape& shape) {
  const HuggingFace* names = shape.kind->hugging_face;
  while (names != nullptr && names->fits != nullptr && !names->fits(shape)) names = names->also;
  return names;
}

}  // namespace

Shape stored_shape(const ModelShape& model, std::string_view name, const Shape& shape) {
  const HuggingFace* names = names_of(model);
  return names == nullptr || names->stored == nullptr ? shape : names->stored(model, name, shape);
}

ModelShape read_config_json(const std::string& text, const std::string& file,
                            std::span<const Family* const> known) {
  const ConfigJson config(text, file);
  const std::string type = config.text("model_type");
  std::string names;
  for (const Family* family : known) {
    for (const HuggingFace* row = family->hugging_face; row != nullptr; row = row->also) {
      names += detail::concat(names.empty() ? "" : ", ", row->model_type);
      if (row->model_type != type) continue;
      ModelShape shape{.kind = family};
      row->read(config, shape);
      config.refuse_if_true("is_encoder_decoder", "cleave has no encoder-decoder models");
      config.refuse_if_true("add_cross_attention", "cleave has no cross-attention here");
      config.finish();
      check(shape);
      return shape;
    }
  }
  throw UserError(detail::concat(file, " has \"model_type\": \"", type,
                                 "\", which cleave does not know; known are ", names));
}

bool has_config_json(const ModelShape& shape) {
  const HuggingFace* names = names_of(shape);
  return names != nullptr && describes(*names, shape);
}

std::string config_json(const ModelShape& shape, std::string_view dtype) {
  const HuggingFace* names = names_of(shape);
  require(has_config_json(shape), "model.kind \"", shape.kind->name, "\" ",
          shape.kind->hugging_face == nullptr ? "" : "of this shape ",
          "is none that Hugging Face's tools know; it cannot have a config.json");
  ConfigJsonText config;
  write_keys(*names, shape, config);
  config.set("torch_dtype", std::string(dtype));
  return config.text();
}

}  // namespace cleave::model
