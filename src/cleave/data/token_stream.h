#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/data/packed_format.h"
#include "cleave/data/query.h"
#include "cleave/data/token_file.h"
#include "cleave/data/tokenizer/tokenizer.h"

namespace cleave::data {

struct StreamOptions {
  std::string_view key = "data.path";    ///< what messages call the path
  std::filesystem::path leave_out = {};  ///< a directory that is not read, wherever it is
  const Tokenizer* tokenizer = nullptr;  ///< of text; null: one token per byte
  const ChatTemplate* chat = nullptr;    ///< of messages; null: there must be none
  Borders borders = Borders::Crossed;
};

/// Tokens of one or many files, one after another, as if they were one list.
///
/// A path is a file, a pattern such as "shard-*.bin", or a directory, which stands for the text
/// files below it in order of their paths (text_files.h), without empty ones and those with a NUL
/// byte in their first 8 KiB, which are not text. Files of tokens are those of packed_format.h;
/// anything else is text or JSON Lines; .gz and .zst are unpacked. With a tokenizer, every file or
/// line is a document, which its end token follows; plain bytes follow each other as they are, and
/// a newline follows every line of JSON. A path such as "memory:mine" stands for tokens that the
/// program has given (given_tokens.h).
///
/// Large files stay on disk and are read where they are asked for: a file that is cut off during a
/// run is an error, not a crash.
class TokenStream {
 public:
  /// Throws UserError: missing, unreadable, empty or cut-off files, a directory without text.
  TokenStream(const std::filesystem::path& path, TokenType type, std::int64_t vocab,
              const StreamOptions& options = {});
  TokenStream(std::vector<std::filesystem::path> paths, TokenType type, std::int64_t vocab,
              const StreamOptions& options = {});

  std::int64_t size() const { return size_; }
  /// What it was made from; of several paths the first.
  const std::filesystem::path& path() const { return path_; }

  /// Bytes of the text that the tokens were made from; nothing if some of them were read from files
  /// of tokens.
  std::optional<std::int64_t> text_bytes() const;
  /// Whether some of the tokens were made from text.
  bool has_text() const;

  /// Copies tokens from `offset` on. Throws UserError if one is outside the vocabulary; does not
  /// allocate otherwise.
  void read(std::int64_t offset, std::span<std::int32_t> tokens) const;

  /// The same, with kNoTarget in place of tokens that are not to be predicted: those of a
  /// conversation that the assistant does not say.
  void read_targets(std::int64_t offset, std::span<std::int32_t> tokens) const;

  /// Throws UserError if some file does not say where its documents end, and no end token does.
  void check_borders() const;

  /// For each of the tokens from `offset` on, at which of them its document begins; 0 if that is
  /// before them. A file begins a document. Does not allocate.
  void read_begins(std::int64_t offset, std::span<std::int32_t> begins) const;

  /// How many of the tokens [first, end) are to be predicted. Does not allocate.
  std::int64_t targets(std::int64_t first, std::int64_t end) const;

  /// Throws UserError if any of the tokens [first, end) is outside the vocabulary.
  void check_tokens(std::int64_t first, std::int64_t end) const;
  void check_tokens() const { check_tokens(0, size_); }

  /// A hash over the sizes of all files and over their tokens, of data past a gigabyte over blocks
  /// spread evenly.
  std::uint64_t digest() const;

 private:
  void add_path(const std::filesystem::path& path, const StreamOptions& options);
  void add_file(const std::filesystem::path& path, const StreamOptions& options, bool listed);
  void add_unpacked(const std::filesystem::path& path, const StreamOptions& options);
  void add_text(const std::filesystem::path& path, const StreamOptions& options);
  void add_piece(TokenFile piece);
  template <class Use>
  void for_each_piece(std::int64_t first, std::int64_t end, Use use) const;

  std::filesystem::path path_;
  TokenType type_;
  std::int64_t vocab_;
  std::int64_t size_ = 0;
  std::int64_t text_bytes_ = 0;            // that were tokenized
  bool masks_ = false;                     // of some piece
  std::optional<std::int32_t> end_token_;  // of documents, if there is a tokenizer that has one
  std::vector<TokenFile> pieces_;
};

}  // namespace cleave::data
