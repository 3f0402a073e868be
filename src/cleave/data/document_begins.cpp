#include "cleave/data/document_begins.h"

#include <algorithm>

namespace cleave::data {

void begins_from_starts(std::span<const std::int64_t> starts, std::int64_t index,
                        std::int64_t position, std::span<std::int32_t> begins) {
  auto next = std::ranges::upper_bound(starts, index);
  // Tokens before `index` are in the window only if they are of an earlier file.
  auto begin = static_cast<std::int32_t>(position);
  for (std::int64_t i = 0; i < std::ssize(begins); ++i) {
    for (; next != starts.end() && *next == index + i; ++next)
      begin = static_cast<std::int32_t>(position + i);
    begins[i] = begin;
  }
}

void begins_from_ends(std::int32_t end, std::int64_t position, std::span<std::int32_t> tokens) {
  auto begin = static_cast<std::int32_t>(position);
  for (std::int64_t i = 0; i < std::ssize(tokens); ++i) {
    const bool ends = tokens[i] == end;
    tokens[i] = begin;
    if (ends) begin = static_cast<std::int32_t>(position + i + 1);
  }
}

}  // namespace cleave::data
