#pragma once

#include <string>

#include "cleave/data/tokenizer/pattern_text.h"

namespace cleave::data::tokenizer {

/// Reads a class in brackets, at whose first `text` is, and gives an expression of PCRE2's that
/// matches the same characters. Oniguruma's may hold other classes, and `[a&&b]` matches what both
/// sides do; lookahead and alternatives say it in PCRE2, which takes these signs for characters.
std::string bracket_class(PatternText& text);

}  // namespace cleave::data::tokenizer
