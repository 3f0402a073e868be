#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

namespace cleave::data {

/// Files below `directory`, sorted by path. Left out are hidden ones, files of tokens (.bin, .idx,
/// .npy), compressed ones that are not called .txt, .md, .jsonl or .ndjson before that, what runs
/// have written and the directory `leave_out`; links to directories are not followed. Throws
/// UserError if it cannot be read.
std::vector<std::filesystem::path> text_files_below(const std::filesystem::path& directory,
                                                    const std::filesystem::path& leave_out = {});

/// What makes a path that names no file a pattern.
inline constexpr std::string_view kWildcards = "*?[";

/// The files that `path` names: itself, those below a directory, or those that match a pattern with
/// `*`, `?` or `[`. Throws UserError if there is none; `key` is what messages call it.
std::vector<std::filesystem::path> files_named(const std::filesystem::path& path,
                                               std::string_view key,
                                               const std::filesystem::path& leave_out = {});

}  // namespace cleave::data
