#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/data/chat.h"

namespace cleave::data {

/// The messages of one conversation: a JSON list of them, or an object that has it as "messages".
/// Throws UserError, which begins with `where`.
std::vector<ChatMessage> parse_messages(std::string_view text, std::string_view where);

/// Texts of a file, each a whole for the tokenizer: the file itself, or the "text" of every line of
/// a .jsonl file, or its "messages". Owns what the texts show.
class Documents {
 public:
  /// Reads the file, unpacked if it is .gz or .zst. Throws UserError: unreadable, not text, a line
  /// that is no JSON object with a text or messages, messages without a template, a conversation
  /// without an assistant.
  explicit Documents(const std::filesystem::path& path, const ChatTemplate* chat = nullptr);

  /// The same from bytes; `name` tells the format.
  Documents(std::string bytes, const std::filesystem::path& name,
            const ChatTemplate* chat = nullptr);

  Documents(const Documents&) = delete;
  Documents& operator=(const Documents&) = delete;

  const std::vector<std::string_view>& texts() const { return texts_; }

  /// Whether they are conversations; then [text] what of each is to be learned.
  bool is_chat() const { return !trained_.empty(); }
  const std::vector<std::vector<TrainedSpan>>& trained() const { return trained_; }

  /// How long the file is, unpacked.
  std::size_t bytes() const { return bytes_.size(); }

 private:
  void read(const std::filesystem::path& name, const ChatTemplate* chat);
  void read_lines(const std::filesystem::path& name, const ChatTemplate* chat);

  std::string bytes_;
  std::string decoded_;  // texts of JSON, one after another
  std::vector<std::string_view> texts_;
  std::vector<std::vector<TrainedSpan>> trained_;
};

/// Whether the file's name is one of JSON Lines, compressed or not.
bool is_json_lines(const std::filesystem::path& path);

/// Whether the first file of JSON Lines that `path`, as data.path has it, names begins with
/// messages. False if there is none, or it is compressed.
bool begins_with_messages(const std::filesystem::path& path);

}  // namespace cleave::data
