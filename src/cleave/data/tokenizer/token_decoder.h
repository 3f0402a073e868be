#pragma once

#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cleave/data/tokenizer/regex.h"

namespace cleave::data::tokenizer {

/// One step from the names of tokens to text.
class TokenDecoder {
 public:
  virtual ~TokenDecoder() = default;
  virtual void apply(std::vector<std::string>& tokens, RegexScratch& scratch) const = 0;
};

using TokenDecoders = std::vector<std::unique_ptr<TokenDecoder>>;

/// What "decoder" of a tokenizer.json says, in order. Throws UserError for a type that is not
/// known.
TokenDecoders read_decoders(const nlohmann::json& json);

}  // namespace cleave::data::tokenizer
