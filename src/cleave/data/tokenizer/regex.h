#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace cleave::data::tokenizer {

/// What one thread needs to match with any Regex; made by the first match, used for every other.
class RegexScratch {
 public:
  RegexScratch();
  ~RegexScratch();
  RegexScratch(RegexScratch&&) noexcept;
  RegexScratch& operator=(RegexScratch&&) noexcept;

 private:
  friend class Regex;
  struct State;
  std::unique_ptr<State> state_;
};

struct Match {
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// A regular expression as tokenizer.json has it: in Oniguruma's syntax, over valid UTF-8. PCRE2
/// compiles it; where the two give a class another meaning (\s, \w, \d, \h), Oniguruma's is used.
class Regex {
 public:
  /// Throws UserError, naming the pattern, if it is none.
  explicit Regex(std::string_view pattern);
  /// Matches this very text.
  static Regex literal(std::string_view text);
  /// Matches a grapheme: characters that readers take for one.
  static Regex grapheme();
  Regex(Regex&&) noexcept;
  ~Regex();

  /// The leftmost match in `text` that begins at `from` or after it. Throws UserError if the
  /// pattern takes more steps than any sane text needs.
  std::optional<Match> find(std::string_view text, std::size_t from, RegexScratch& scratch) const;

 private:
  struct Code;
  explicit Regex(std::unique_ptr<Code> code);

  std::unique_ptr<Code> code_;
};

}  // namespace cleave::data::tokenizer
