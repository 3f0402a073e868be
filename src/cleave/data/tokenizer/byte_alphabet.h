#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace cleave::data::tokenizer {

/// GPT-2's alphabet: one printable character for each byte, so that any bytes can be written as
/// text. A byte that is a printable character of Latin-1 stands for itself, the others follow from
/// U+0100 on.
void append_in_alphabet(std::string_view bytes, std::string& text);

/// The bytes that `text` stands for; nothing if a character is not of the alphabet.
std::optional<std::string> from_alphabet(std::string_view text);

}  // namespace cleave::data::tokenizer
