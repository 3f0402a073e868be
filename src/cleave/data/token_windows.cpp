#include "cleave/data/token_windows.h"

#include <algorithm>

#include "cleave/base/check.h"

namespace cleave::data {

std::int64_t TokenWindows::size() const {
  const std::int64_t filled = tail_ == Tail::FilledUp ? sequence_ - 1 : 0;
  return (stream_.size() - 1 + filled) / sequence_;
}

std::int64_t TokenWindows::targets(std::int64_t first, std::int64_t end) const {
  return stream_.targets(first * sequence_ + 1, std::min(end * sequence_ + 1, stream_.size()));
}

void TokenWindows::read(std::int64_t sample, std::string_view input, const SampleRow& row) const {
  CLEAVE_CHECK(std::ssize(row.ids) == sequence_, row.ids.size());
  if (input == "documents") return read_begins(sample, row.ids);
  CLEAVE_CHECK(input == "tokens" || input == "targets", "text has no ", input);
  const bool are_targets = input == "targets";
  const std::int64_t first = sample * sequence_ + (are_targets ? 1 : 0);
  const auto there =
      static_cast<std::size_t>(std::clamp<std::int64_t>(stream_.size() - first, 0, sequence_));
  std::ranges::fill(row.ids.subspan(there), are_targets ? kNoTarget : 0);
  const std::span<std::int32_t> ids = row.ids.first(there);
  are_targets ? stream_.read_targets(first, ids) : stream_.read(first, ids);
}

/// What fills a window up is a document of its own.
void TokenWindows::read_begins(std::int64_t sample, std::span<std::int32_t> begins) const {
  const std::int64_t first = sample * sequence_;
  const std::int64_t there = std::clamp<std::int64_t>(stream_.size() - first, 0, sequence_);
  const auto count = static_cast<std::size_t>(there);
  std::ranges::fill(begins.subspan(count), static_cast<std::int32_t>(there));
  stream_.read_begins(first, begins.first(count));
}

}  // namespace cleave::data
