#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/base/file.h"
#include "cleave/data/query.h"

namespace cleave::data {

struct StreamOptions {
  std::string_view key = "data.path";    ///< what messages call the path
  std::filesystem::path leave_out = {};  ///< a directory that is not read, wherever it is
};

/// Tokens of one or many files, one after another, as if they were one list.
///
/// A `.bin` file holds little-endian u16 or u32 tokens; anything else is text, one token per byte.
/// A directory stands for the text files below it, in order of their paths: hidden, empty and .bin
/// files are left out, those with a NUL byte in their first 8 KiB, which are not text, and what
/// runs have written; links to directories are not followed. Nothing is put between files.
///
/// Large files stay open and are read where tokens are needed: one that another program shortens
/// meanwhile is an error with its name, and not the end of the process as with a mapping; one that
/// is removed can still be read. Small ones are copied into memory, so that a directory of very
/// many does not run into the system's limit on open files.
class TokenStream {
 public:
  /// Throws UserError: missing, unreadable, empty or cut-off files, a directory without text.
  TokenStream(const std::filesystem::path& path, TokenType type, std::int64_t vocab,
              const StreamOptions& options = {});

  std::int64_t size() const { return size_; }
  const std::filesystem::path& path() const { return path_; }

  /// Copies tokens from `offset` on. Throws UserError if one is outside the vocabulary; does not
  /// allocate otherwise.
  void read(std::int64_t offset, std::span<std::int32_t> tokens) const;

  /// Throws UserError if any token is outside the vocabulary; reads everything.
  void check_tokens() const;

  /// A hash over the sizes of all files and over their bytes, of data past a gigabyte over blocks
  /// spread evenly.
  std::uint64_t digest() const;

 private:
  struct Piece {
    std::int64_t first = 0;  // token
    std::int64_t bytes = 0;
    std::filesystem::path path;
    std::vector<std::byte> copy;  // of a small file
    std::optional<File> file;     // of a large one, as long as there are not too many
  };

  void add_text_directory(const std::filesystem::path& directory, const StreamOptions& options);
  void add_file(const std::filesystem::path& path);
  void read_bytes(const Piece& piece, std::int64_t offset, std::span<std::byte> bytes) const;
  void read_piece(const Piece& piece, std::int64_t index, std::span<std::int32_t> tokens) const;
  [[noreturn]] void fail_vocab(const Piece& piece, std::int64_t index, std::int64_t value) const;

  std::filesystem::path path_;
  std::int64_t vocab_;
  int width_ = 1;  // bytes per token
  int open_files_ = 0;
  std::vector<Piece> pieces_;
  std::int64_t size_ = 0;
};

}  // namespace cleave::data
