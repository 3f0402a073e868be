#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "cleave/data/query.h"

namespace cleave::data {

/// A file as far as it has to be seen to tell its format.
struct PackedProbe {
  std::filesystem::path name;  ///< without the ending of a compression
  std::string_view head;       ///< its first bytes, at most kPackedHead
  std::int64_t size = 0;       ///< bytes
  TokenType type = TokenType::Auto;
};

constexpr std::size_t kPackedHead = 8 * 1024;

/// Where the tokens of a file lie.
struct PackedLayout {
  std::int64_t offset = 0;  ///< bytes
  std::int64_t count = 0;   ///< tokens
  int width = 2;            ///< bytes of a token, little-endian
  bool is_signed = false;   ///< of 8, 16 or 32 bits, so that half of the numbers are no tokens
};

/// Nothing if the file holds no tokens but text. Formats: llm.c, Megatron (.idx beside the .bin),
/// NumPy (.npy of integers), and raw numbers (.bin). Throws UserError for files that were cut off
/// and for numbers that are no tokens.
std::optional<PackedLayout> packed_layout(const PackedProbe& probe);

/// Where the index of a .bin of Megatron would be; empty for files of another name.
std::filesystem::path index_beside(const std::filesystem::path& file);

/// The first token of every document, if the file knows: Megatron's do. Otherwise empty.
std::vector<std::int64_t> document_starts(const PackedProbe& probe);

}  // namespace cleave::data
