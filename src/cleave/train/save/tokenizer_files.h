#pragma once

#include <filesystem>
#include <string>

#include "cleave/train/config/config.h"

namespace cleave::train {

/// What Hugging Face's tools read of a tokenizer that nobody has told them about yet.
struct TokenizerFiles {
  std::string tokenizer_config =
      {};  ///< which token ends a text, and the template of conversations
  std::string generation_config = {};  ///< which tokens end what is generated; "" if none does
};

/// Those for the model that a run of `config` trains with the tokenizer.json `tokenizer`. What ends
/// a turn of the assistant ends a text where the run learned conversations. Of a model that was not
/// trained here, whose config has no data, nothing is known but that there is a tokenizer.
TokenizerFiles tokenizer_files(const Config& config, const std::filesystem::path& tokenizer);

}  // namespace cleave::train
