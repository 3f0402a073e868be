#pragma once

#include <span>
#include <string>
#include <string_view>

#include "cleave/model/config_json.h"
#include "cleave/model/family.h"
#include "cleave/spec/dtype.h"

namespace cleave::model {

/// What Hugging Face's tools call a family, and how its config.json is read and written.
struct HuggingFace {
  std::string_view model_type;    ///< in config.json, such as "llama"
  std::string_view architecture;  ///< the class that loads it, such as "LlamaForCausalLM"

  /// Reads every key that says something about the model. Throws UserError on what the family, or
  /// cleave, does not do. The kind of the shape is set before.
  void (*read)(const ConfigJson& config, ModelShape& shape);

  /// Sets the keys that read() would read.
  void (*write)(const ModelShape& shape, ConfigJsonText& config);

  /// The shape of the tensor `name`, which the model has as `shape`. Null: the same.
  Shape (*stored)(const ModelShape& model, std::string_view name, const Shape& shape) = nullptr;

  /// Whether a model goes by these names; otherwise by those of `also`. Null: every model does.
  bool (*fits)(const ModelShape& shape) = nullptr;
  const HuggingFace* also = nullptr;
};

/// The shape of a tensor of a model in a Hugging Face directory: the same elements, in the same
/// order, with other dims.
Shape stored_shape(const ModelShape& model, std::string_view name, const Shape& shape);

/// The model that a config.json describes; `file` stands for it in messages. Throws UserError,
/// naming the key, on whatever cleave does not do.
ModelShape read_config_json(const std::string& text, const std::string& file,
                            std::span<const Family* const> known = families());

/// Whether Hugging Face's tools know models of this family and shape.
bool has_config_json(const ModelShape& shape);

/// The config.json of a model; `dtype` is that of the tensors beside it. Throws UserError if it has
/// none.
std::string config_json(const ModelShape& shape, std::string_view dtype);

}  // namespace cleave::model
