#pragma once

#include <cstdint>
#include <string>

namespace cleave::data::tokenizer {

/// Unicode's normalization forms. Tables are those of Hugging Face's tokenizers, whose editions of
/// Unicode differ from one normalizer to the next.
enum class Form : std::uint8_t { Nfc, Nfd, Nfkc, Nfkd };

/// Brings valid UTF-8 into a form. Text that is in it already, as nearly all is, is only scanned.
void to_form(Form form, std::string& text);

/// Character by character, without regard to its neighbours.
void to_lower_case(std::string& text);

/// Takes out every combining mark.
void strip_marks(std::string& text);

}  // namespace cleave::data::tokenizer
