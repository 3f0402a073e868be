#include "cleave/schedule/scanner.h"

#include <algorithm>
#include <charconv>
#include <limits>

namespace cleave::schedule {

bool Scanner::next_line() {
  words_.clear();
  if (at_ >= text_.size()) return false;
  line_end_ = std::min(text_.find('\n', at_), text_.size());
  std::string_view line = text_.substr(at_, line_end_ - at_);
  at_ = line_end_ + 1;
  line = line.substr(0, line.find('#'));
  constexpr std::string_view kBlanks = " \t\r";
  for (std::size_t from = 0; (from = line.find_first_not_of(kBlanks, from)) != line.npos;) {
    const std::size_t to = std::min(line.find_first_of(kBlanks, from), line.size());
    words_.push_back(line.substr(from, to - from));
    from = to;
  }
  return true;
}

std::int64_t Scanner::number(std::size_t index, std::int64_t least, std::int64_t most) const {
  if (index >= words_.size())
    throw_at(line_end_, cleave::detail::concat(quoted(words_[0]), " needs a number here"));
  const std::string_view word = words_[index];
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error == std::errc::invalid_argument || end != word.data() + word.size())
    fail(word, quoted(word), " is not a whole number");
  if (error != std::errc() || value < least || value > most)
    fail(word, quoted(word), " is not between ", least, " and ", most);
  return value;
}

int Scanner::count(std::size_t index) const {
  return static_cast<int>(number(index, 1, std::numeric_limits<std::int32_t>::max()));
}

int Scanner::below(std::size_t index, int bound) const {
  return static_cast<int>(number(index, 0, bound - 1));
}

std::int64_t Scanner::bytes(std::size_t index) const {
  return number(index, 0, std::numeric_limits<std::int64_t>::max());
}

void Scanner::no_more_than(std::size_t words) const {
  if (words_.size() > words) fail(words_[words], quoted(words_[0]), " takes no more words");
}

std::string Scanner::quoted(std::string_view word) {
  std::string text = "'";
  for (char c : word.substr(0, 40)) text += c >= ' ' && c <= '~' ? c : '?';
  return text + (word.size() > 40 ? "...'" : "'");
}

void Scanner::throw_at(std::size_t offset, const std::string& what) const {
  const std::string_view before = text_.substr(0, offset);
  const std::size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0
  throw UserError(cleave::detail::concat("line ", 1 + std::ranges::count(before, '\n'), ", column ",
                                         offset - line_start + 1, ": ", what));
}

}  // namespace cleave::schedule
