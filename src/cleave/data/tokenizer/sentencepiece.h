#pragma once

#include <memory>
#include <string>

#include "cleave/data/tokenizer/tokenizer.h"

namespace cleave::data::tokenizer {

/// Opens a tokenizer.model of sentencepiece. Throws UserError if it is none.
std::unique_ptr<const Tokenizer> open_sentencepiece(const std::string& path);

}  // namespace cleave::data::tokenizer
