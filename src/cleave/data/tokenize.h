#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "cleave/data/tokenizer/tokenizer.h"

namespace cleave::data {

struct TokenizeOptions {
  int threads = 1;
  Framing framing = Framing::Document;
  /// Stands after every document that does not end with it already; nothing: no token does.
  std::optional<std::int32_t> end_token = {};
};

/// Tokenizes documents on several threads. Long ones are shared out as well, cut at line ends where
/// the tokenizer gives the same tokens with the cut and without it. The tokens are the same for any
/// number of threads.
class ParallelTokenizer {
 public:
  /// Borrows the tokenizer.
  ParallelTokenizer(const Tokenizer& tokenizer, const TokenizeOptions& options);

  /// The tokens of each document. `progress` hears of bytes that are done, from one thread at a
  /// time.
  std::vector<std::vector<std::int32_t>> encode(
      std::span<const std::string_view> documents,
      const std::function<void(std::int64_t bytes)>& progress = {});

 private:
  struct TextSpan {
    std::string_view text;
    std::size_t document = 0;
    Framing framing = Framing::None;
    std::vector<std::int32_t> tokens;
  };

  void add_parts(std::string_view document, std::size_t index, std::vector<TextSpan>& parts);
  bool may_cut(std::string_view text, std::size_t at);
  void encode_parts(std::vector<TextSpan>& parts,
                    const std::function<void(std::int64_t)>& progress);

  TokenizeOptions options_;
  std::vector<std::unique_ptr<TextEncoder>> encoders_;  // by thread
};

}  // namespace cleave::data
