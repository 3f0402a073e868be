#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "cleave/data/token_stream.h"

namespace cleave::testing {

/// All tokens of a file, read as a stream of a vocabulary of 70,000.
inline std::vector<std::int32_t> tokens_in(const std::filesystem::path& path,
                                           const data::StreamOptions& options = {}) {
  const data::TokenStream stream(path, data::TokenType::Auto, 70'000, options);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(stream.size()));
  stream.read(0, tokens);
  return tokens;
}

}  // namespace cleave::testing
