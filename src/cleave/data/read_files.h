#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace cleave::data {

/// The files that are read where a path of a config stands, for whoever has to bring all of them
/// to a machine that does not see them.
struct ReadFiles {
  std::filesystem::path base;      ///< the directory below which they are
  std::string name;                ///< the path, relative to `base`; empty: it is `base` itself
  std::vector<std::string> files;  ///< relative to `base`, sorted
};

/// `path` is a file, a directory with everything below it, or a pattern with `*`, `?` or `[`. What
/// is read beside a file is listed with it: the .idx of Megatron's tokens and the
/// tokenizer_config.json of a tokenizer. With a copy of the files in any directory, `name` below it
/// is read as `path` is. Throws UserError if nothing is there.
ReadFiles files_read_at(const std::string& path);

}  // namespace cleave::data
