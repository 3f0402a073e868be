#include "cleave/data/text_files.h"

#include <algorithm>

#include <glob.h>

#include "cleave/base/check.h"
#include "cleave/data/compression.h"

namespace cleave::data {
namespace {

namespace fs = std::filesystem;

/// The train.out of some run: text in it changes with every run.
bool is_out_directory(const fs::path& directory) {
  return fs::is_directory(directory / "checkpoints") && fs::exists(directory / "config.toml");
}

bool holds_tokens(const fs::path& path) {
  return path.extension() == ".bin" || path.extension() == ".idx" || path.extension() == ".npy";
}

/// Archives and pictures may be compressed too: of compressed files only those count whose name
/// says that they are text.
bool may_be_text(const fs::path& path) {
  if (!is_compressed(path)) return true;
  const fs::path inner = path.stem().extension();
  return inner == ".txt" || inner == ".md" || inner == ".jsonl" || inner == ".ndjson";
}

std::vector<fs::path> matches_of(const std::string& pattern) {
  glob_t found{};
  std::vector<fs::path> paths;
  if (::glob(pattern.c_str(), GLOB_TILDE, nullptr, &found) == 0) {
    for (std::size_t i = 0; i < found.gl_pathc; ++i) paths.emplace_back(found.gl_pathv[i]);
  }
  ::globfree(&found);
  return paths;
}

}  // namespace

std::vector<fs::path> text_files_below(const fs::path& directory, const fs::path& leave_out) {
  std::vector<fs::path> found;
  try {
    for (auto entry = fs::recursive_directory_iterator(directory);
         entry != fs::recursive_directory_iterator(); ++entry) {
      std::error_code error;
      const fs::file_status status = entry->status(error);
      if (error && entry->is_symlink()) continue;  // it leads nowhere, or in a circle
      const bool hidden = entry->path().filename().string().starts_with('.');
      if (fs::is_directory(status) &&
          (hidden || is_out_directory(entry->path()) || fs::canonical(entry->path()) == leave_out))
        entry.disable_recursion_pending();
      if (!hidden && fs::is_regular_file(status) && !holds_tokens(entry->path()) &&
          may_be_text(entry->path())) {
        found.push_back(entry->path());
      }
    }
  } catch (const fs::filesystem_error& error) {
    throw UserError(
        detail::concat("cannot read ", error.path1().string(), ": ", error.code().message()));
  }
  std::ranges::sort(found);
  return found;
}

std::vector<fs::path> files_named(const fs::path& path, std::string_view key,
                                  const fs::path& leave_out) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_directory(status)) return text_files_below(path, leave_out);
  if (fs::exists(status)) {
    require(fs::is_regular_file(status), "cannot read ", key, " ", path.string(),
            ": it is neither a file nor a directory");
    return {path};
  }
  const bool is_pattern = path.string().find_first_of(kWildcards) != std::string::npos;
  std::vector<fs::path> files = is_pattern ? matches_of(path.string()) : std::vector<fs::path>();
  require(!is_pattern || !files.empty(), key, " ", path.string(), " matches no file");
  require(is_pattern, "cannot read ", key, " ", path.string(), ": ",
          error ? error.message() : "No such file or directory");
  return files;
}

}  // namespace cleave::data
