#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace cleave::data {

/// Texts of a file, each a whole for the tokenizer: the file itself, or the "text" of every line of
/// a .jsonl file. Owns what the texts show.
class Documents {
 public:
  /// Reads the file, unpacked if it is .gz or .zst. Throws UserError: unreadable, not text, a line
  /// that is no JSON object with a text.
  explicit Documents(const std::filesystem::path& path);

  /// The same from bytes; `name` tells the format.
  Documents(std::string bytes, const std::filesystem::path& name);

  Documents(const Documents&) = delete;
  Documents& operator=(const Documents&) = delete;

  const std::vector<std::string_view>& texts() const { return texts_; }

  /// Of the file, unpacked.
  std::size_t bytes() const { return bytes_.size(); }

 private:
  void read(const std::filesystem::path& name);
  void read_lines(const std::filesystem::path& name);

  std::string bytes_;
  std::string decoded_;  // texts of JSON, one after another
  std::vector<std::string_view> texts_;
};

/// Whether the file's name is one of JSON Lines, compressed or not.
bool is_json_lines(const std::filesystem::path& path);

}  // namespace cleave::data
