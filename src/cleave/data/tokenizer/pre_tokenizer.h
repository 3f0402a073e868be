#pragma once

#include <memory>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cleave/data/tokenizer/pieces.h"

namespace cleave::data::tokenizer {

/// One step of cutting a text into words.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual void apply(Pieces& pieces) const = 0;

  /// Called once all steps are known: nothing looks at the pieces after this one.
  virtual void be_last() {}
};

using PreTokenizers = std::vector<std::unique_ptr<PreTokenizer>>;

/// What "pre_tokenizer" of a tokenizer.json says, in order. Throws UserError for a type that is not
/// known.
PreTokenizers read_pre_tokenizers(const nlohmann::json& json);

}  // namespace cleave::data::tokenizer
