#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cleave/base/file.h"
#include "cleave/data/given_tokens.h"
#include "cleave/data/packed_format.h"

namespace cleave::data {

/// Stands among targets where nothing is to be predicted.
inline constexpr std::int32_t kNoTarget = -1;

/// What tokens are read for.
enum class ReadAs : std::uint8_t { Tokens, Targets };

/// The tokens of one file: in memory, or on disk; or those that the program gives.
struct TokenFile {
  std::filesystem::path path;
  PackedLayout layout;
  std::int64_t first = 0;                 ///< its place in the stream, in tokens
  std::optional<std::int64_t> text = {};  ///< bytes; nothing: they were tokens before
  std::vector<std::int64_t> starts = {};  ///< of documents; empty: end tokens are their last
  bool masks = false;                     ///< kUntrained may be set in a token
  std::vector<std::byte> memory;
  std::unique_ptr<File> file;  ///< null as well where too many would be open
  GivenTokens given;           ///< if it is no file at all

  std::int64_t bytes() const { return layout.count * layout.width; }

  /// Copies bytes from `offset` on, counted from the beginning of its tokens.
  void read_bytes(std::int64_t offset, std::span<std::byte> bytes) const;

  /// Copies tokens from `index` on; as targets, with kNoTarget for those that are not to be
  /// predicted. Throws UserError if one is not below `vocab`; does not allocate otherwise.
  void read(std::int64_t index, std::span<std::int32_t> tokens, std::int64_t vocab,
            ReadAs as = ReadAs::Tokens) const;
};

}  // namespace cleave::data
