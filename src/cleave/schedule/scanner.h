#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/base/check.h"

namespace cleave::schedule {

/// Goes through a text line by line and word by word, and knows line and column of every word.
/// Words point into the text; a # ends a line early.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

 protected:
  /// Sets `words_`; false at the end of the text.
  bool next_line();

  /// Word `index` of the line as a number within [least, most].
  std::int64_t number(std::size_t index, std::int64_t least, std::int64_t most) const;
  int count(std::size_t index) const;             ///< 1 or more
  int below(std::size_t index, int bound) const;  ///< 0 to bound - 1
  std::int64_t bytes(std::size_t index) const;    ///< 0 or more

  void no_more_than(std::size_t words) const;

  std::int64_t size() const { return static_cast<std::int64_t>(text_.size()); }

  /// At most forty characters of a word that may be anything.
  static std::string quoted(std::string_view word);

  /// Throws UserError: "line 3, column 7: ...". `word` lies in the text.
  template <class... Parts>
  [[noreturn]] void fail(std::string_view word, const Parts&... parts) const {
    throw_at(static_cast<std::size_t>(word.data() - text_.data()),
             cleave::detail::concat(parts...));
  }

  template <class... Parts>
  [[noreturn]] void fail_at_end(const Parts&... parts) const {
    throw_at(text_.size(), cleave::detail::concat(parts...));
  }

  std::vector<std::string_view> words_;

 private:
  [[noreturn]] void throw_at(std::size_t offset, const std::string& what) const;

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t line_end_ = 0;
};

}  // namespace cleave::schedule
