#pragma once

#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "cleave/schedule/program.h"
#include "cleave/schedule/scanner.h"

namespace cleave::schedule {

/// Reads the lines of a program's header, those before its first device, and checks that they
/// agree. What is kept was written out in the text, so memory is bounded by its size; numbers that
/// only claim a size are checked before they are used.
class HeaderScanner : protected Scanner {
 protected:
  explicit HeaderScanner(std::string_view text) : Scanner(text) {}

  /// The line in `words_`.
  void header_line();

  /// After the last of them: fills in what a person may leave out.
  void check_header();

  Program program_;

 private:
  void header_number(int& value);
  void name();
  void segments();
  void place();
  void edge();
  void edges();
  void tie();
  template <class Value>
  void per_stage(std::vector<Value>& values, std::optional<Value> (*named)(std::string_view));
  void one_per_stage(std::size_t given) const;
  void absent();
  void reads();
  void collects();
  void through_host();
  void budget(std::vector<std::int64_t>& budgets);
  [[noreturn]] void fail_size() const;
  void place_by_default();
  void check_placement();

  std::map<char, std::string_view> given_;  ///< initial of a header word -> its number
  std::vector<std::string_view> place_words_;
};

}  // namespace cleave::schedule
