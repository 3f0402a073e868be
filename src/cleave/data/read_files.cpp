#include "cleave/data/read_files.h"

#include <algorithm>
#include <iterator>

#include "cleave/data/compression.h"
#include "cleave/data/packed_format.h"
#include "cleave/data/text_files.h"
#include "cleave/data/tokenizer/tokenizer.h"

namespace cleave::data {
namespace {

namespace fs = std::filesystem;

/// The last `parts` parts of a path.
fs::path last_of(const fs::path& path, std::ptrdiff_t parts) {
  fs::path last;
  for (auto part = std::prev(path.end(), parts); part != path.end(); ++part) last /= *part;
  return last;
}

/// From its first part with a wildcard on: a match has as many parts there.
std::ptrdiff_t matched_parts(const fs::path& pattern) {
  const auto wild = std::ranges::find_if(pattern, [](const fs::path& part) {
    return part.string().find_first_of(kWildcards) != std::string::npos;
  });
  return wild == pattern.end() ? 1 : std::distance(wild, pattern.end());
}

fs::path without_last(fs::path path, std::ptrdiff_t parts) {
  for (; parts > 0; --parts) path = path.parent_path();
  return path;
}

void add_with_companions(const fs::path& file, const fs::path& name, ReadFiles& read) {
  read.files.push_back(name.string());
  const fs::path tokens = is_compressed(file) ? file.parent_path() / file.stem() : file;
  for (const fs::path& beside : {index_beside(tokens), tokenizer_config_beside(file)})
    if (!beside.empty() && fs::is_regular_file(beside))
      read.files.push_back((name.parent_path() / beside.filename()).string());
}

}  // namespace

ReadFiles files_read_at(const std::string& path) {
  ReadFiles read;
  if (fs::is_directory(path)) {
    read.base = path;
    for (const auto& entry : fs::recursive_directory_iterator(path))
      if (entry.is_regular_file())
        read.files.push_back(entry.path().lexically_relative(path).string());
  } else {
    const std::vector<fs::path> found = files_named(path, "file");
    const std::ptrdiff_t parts = fs::exists(path) ? 1 : matched_parts(path);
    read.base = without_last(found.front(), parts);
    read.name = last_of(path, parts).string();
    for (const fs::path& file : found) add_with_companions(file, last_of(file, parts), read);
  }
  std::ranges::sort(read.files);
  const auto twice = std::ranges::unique(read.files);
  read.files.erase(twice.begin(), twice.end());
  return read;
}

}  // namespace cleave::data
