#pragma once

#include <string>

#include "support/errors.h"

#include "cleave/model/hugging_face.h"

namespace cleave::train {

/// A config.json of four layers; `more` begins with a comma.
inline std::string config_text(const std::string& type, const std::string& more) {
  return R"({"model_type": ")" + type +
         R"(", "num_hidden_layers": 4, "hidden_size": 64, "num_attention_heads": 32,
            "intermediate_size": 20, "vocab_size": 40, "max_position_embeddings": 64)" +
         more + "}";
}

inline ModelShape read_keys(const std::string& type, const std::string& more) {
  return model::read_config_json(config_text(type, more), "config.json");
}

inline std::string keys_refused(const std::string& type, const std::string& more) {
  return testing::user_error([&] { read_keys(type, more); });
}

}  // namespace cleave::train
