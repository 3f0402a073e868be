#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace cleave::data {

/// What the names of given tokens begin with, so that no file is meant.
inline constexpr std::string_view kGivenPrefix = "memory:";

/// Tokens that the program has, or computes, by itself: data without a file.
struct GivenTokens {
  std::int64_t size = 0;
  /// Fills `tokens` from `offset` on: the same every time, and on any thread, since devices read at
  /// the same time.
  std::function<void(std::int64_t offset, std::span<std::int32_t> tokens)> read;
};

/// From now on data.path and data.validation of this process may be `name`; in place of what was
/// given under that name before. Throws UserError if the name does not begin with "memory:".
void give_tokens(const std::string& name, GivenTokens tokens);

/// They may go away from now on: no run reads them any more.
void take_back_tokens(const std::string& name);

/// Throws UserError if nothing was given under that name. `key` is what messages call the path.
GivenTokens given_tokens(const std::string& name, std::string_view key);

}  // namespace cleave::data
