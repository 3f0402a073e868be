#pragma once

#include <cstdint>
#include <span>

namespace cleave::data {

// A window says for each of its tokens at which of its positions the token's document begins; 0 if
// that is before the window. Neither allocates.

/// Fills `begins` for tokens [index, index + begins.size()) of a file whose documents begin at
/// `starts`, sorted and the first of them 0; the first of these tokens is at position `position` of
/// the window.
void begins_from_starts(std::span<const std::int64_t> starts, std::int64_t index,
                        std::int64_t position, std::span<std::int32_t> begins);

/// `tokens` become their begins, where every token that is `end` is the last of its document.
void begins_from_ends(std::int32_t end, std::int64_t position, std::span<std::int32_t> tokens);

}  // namespace cleave::data
