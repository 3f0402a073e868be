#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/data/chat_template.h"
#include "cleave/data/tokenizer/tokenizer.h"

namespace cleave::data {

/// Bytes [begin, end) of a text that are to be learned.
struct TrainedSpan {
  std::size_t begin = 0;
  std::size_t end = 0;

  friend bool operator==(const TrainedSpan&, const TrainedSpan&) = default;
};

struct ChatMessage {
  std::string role;
  std::string content;
};

/// A conversation as text, and what of it the assistant says: its content and what ends its turn.
struct ChatText {
  std::string text;
  std::vector<TrainedSpan> trained = {};
};

/// Throws UserError, which begins with `where`: a role that the template has not, or no turn of the
/// assistant.
ChatText chat_text(std::span<const ChatMessage> messages, const ChatTemplate& how,
                   std::string_view where);

/// The text of a conversation up to where the assistant speaks next. Throws UserError for a role
/// that the template has not.
std::string chat_prompt(std::span<const ChatMessage> messages, const ChatTemplate& how,
                        std::string_view where);

/// What ends a turn of the assistant; empty if nothing does.
std::string chat_turn_end(const ChatTemplate& how);

/// Set in a token that is not to be predicted. Files of 32-bit tokens have it too.
inline constexpr std::uint32_t kUntrained = std::uint32_t{1} << 31;

/// The tokens of each text as a whole, with kUntrained in those that are outside its spans; a token
/// across the beginning of a span is in it.
std::vector<std::vector<std::uint32_t>> chat_tokens(
    std::span<const std::string_view> texts, std::span<const std::vector<TrainedSpan>> trained,
    const Tokenizer& tokenizer, int threads);

}  // namespace cleave::data
