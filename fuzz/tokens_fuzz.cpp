#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <unistd.h>

#include "cleave/base/check.h"
#include "cleave/data/token_stream.h"

// Whatever a file holds, its tokens are inside the vocabulary, or a UserError says where not. The
// first byte chooses the kind of file and the vocabulary.

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::filesystem::path kDirectory =
      std::filesystem::temp_directory_path() / ("cleave_fuzz_" + std::to_string(::getpid()));
  if (size == 0) return 0;
  std::filesystem::create_directories(kDirectory);
  constexpr const char* kNames[] = {"text.txt", "tokens.bin", "tokens.u32.bin"};
  const std::filesystem::path path = kDirectory / kNames[data[0] % 3];
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(data + 1), static_cast<std::streamsize>(size - 1));
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
  std::filesystem::remove(path);
  return 0;
}
