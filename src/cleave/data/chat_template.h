#pragma once

#include <span>
#include <string>
#include <string_view>

namespace cleave::data {

class Tokenizer;

/// How a conversation becomes text. In each text "{content}" stands for what is said; of the
/// assistant's, what comes from there to "{end}", or to its end, is learned.
struct ChatTemplate {
  std::string name = {};    ///< of a known one; empty: the user's own
  std::string begin = {};   ///< before the first turn
  std::string system = {};  ///< empty: what the system says goes before the first user's content
  std::string user = {};
  std::string assistant = {};
  std::string mark = {};  ///< a token by which its tokenizers are known
  bool trims = false;     ///< white space around what is said is left out

  friend bool operator==(const ChatTemplate&, const ChatTemplate&) = default;
};

/// A turn's text in three parts, around what is said. It borrows the text.
struct TurnFormat {
  std::string_view before;
  std::string_view after;  ///< ends the turn
  std::string_view rest;   ///< comes after it, and is not learned

  explicit TurnFormat(std::string_view format);
};

/// The templates that have a name.
std::span<const ChatTemplate> chat_templates();

/// The one called `name`; null if there is none.
const ChatTemplate* find_chat_template(std::string_view name);

/// The one whose mark is a token of `tokenizer` (null: bytes, which have none); null if there is
/// none.
const ChatTemplate* chat_template_of(const Tokenizer* tokenizer);

}  // namespace cleave::data
