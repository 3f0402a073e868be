#pragma once

#include <filesystem>
#include <string>

namespace cleave::data {

/// What a file holds, unpacked where it is compressed.
struct FileContent {
  std::string bytes;
  std::filesystem::path name;  ///< without the ending of the compression: "a.jsonl" of a.jsonl.gz
};

/// Whether the name has the ending of a compression that read_content unpacks.
bool is_compressed(const std::filesystem::path& path);

/// The whole file; .gz and .zst are unpacked. Throws UserError if it cannot be read, is damaged, or
/// would be larger than 16 GiB.
FileContent read_content(const std::filesystem::path& path);

/// What a file is that cleave does not read, by its first bytes, "a Parquet file" or "a Python
/// pickle"; empty if it is nothing of that kind.
std::string_view foreign_kind(std::string_view first_bytes);

}  // namespace cleave::data
