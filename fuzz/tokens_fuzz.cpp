#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "memory_file.h"
#include <unistd.h>

#include "cleave/base/check.h"
#include "cleave/data/token_stream.h"

// Whatever a file holds, its tokens are inside the vocabulary, or a UserError says where not. The
// first byte chooses the kind of file, which its name says, and the vocabulary.

namespace {

namespace fs = std::filesystem;

/// One file in memory under several names.
class NamedFile {
 public:
  static constexpr std::size_t kNames = 3;

  NamedFile()
      : bytes_(nullptr, 0),
        directory_(fs::temp_directory_path() / ("cleave_fuzz_" + std::to_string(::getpid()))) {
    fs::create_directories(directory_);
    for (const char* name : {"text.txt", "tokens.bin", "tokens.u32.bin"}) {
      paths_.push_back(directory_ / name);
      fs::create_symlink(bytes_.path(), paths_.back());
    }
  }
  ~NamedFile() {
    std::error_code ignored;
    fs::remove_all(directory_, ignored);
  }

  /// Under its name of that number, it has these bytes and no others.
  const fs::path& fill(std::size_t name, const std::uint8_t* data, std::size_t size) {
    bytes_.fill(data, size);
    return paths_[name];
  }

 private:
  cleave::fuzz::MemoryFile bytes_;
  fs::path directory_;
  std::vector<fs::path> paths_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  static NamedFile file;
  const fs::path& path = file.fill(data[0] % NamedFile::kNames, data + 1, size - 1);
  const std::int64_t vocabulary = 1 + data[0];
  try {
    const cleave::data::TokenStream stream(path, cleave::data::TokenType::Auto, vocabulary);
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(stream.size()));
    stream.read(0, tokens);
    stream.check_tokens();
    if (std::ranges::any_of(tokens, [&](std::int32_t t) { return t < 0 || t >= vocabulary; }))
      std::abort();
  } catch (const cleave::UserError&) {
  }
  return 0;
}
