#include "cleave/data/tokenizer/oniguruma.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "cleave/base/check.h"
#include "cleave/data/tokenizer/bracket_class.h"
#include "cleave/data/tokenizer/pattern_text.h"
#include "cleave/data/tokenizer/regex_classes.h"

namespace cleave::data::tokenizer {
namespace {

// Outside of brackets Oniguruma counts these among words as well.
constexpr std::string_view kLatinWords = R"(\x{b2}\x{b3}\x{b9}\x{bc}-\x{be})";

/// Goes through a pattern once, from left to right.
class Translator {
 public:
  explicit Translator(PatternText text) : text_(text) {}

  std::string made() && {
    while (!text_.ended()) step();
    close_options();
    return std::move(out_);
  }

 private:
  void add_atom(const std::string& text) {
    atom_ = out_.size();
    quantified_ = false;
    out_ += text;
  }

  void step() {
    const char c = text_.peek();
    if (c == '\\') return add_atom(escape());
    if (c == '[') return add_atom(bracket_class(text_));
    if (c == '(') return open();
    if (c == ')') return close();
    if (c == '*' || c == '+' || c == '?') {
      ++text_.at;
      return quantify(std::string(1, c), Suffixes::LazyOrPossessive);
    }
    if (c == '{') {
      if (const auto times = interval()) {
        const bool exact = times->find(',') == std::string::npos;
        return quantify(*times, exact ? Suffixes::None : Suffixes::Lazy);
      }
      ++text_.at;
      return add_atom("\\{");
    }
    add_atom(std::string(1, c));
    for (++text_.at; !text_.ended() && (static_cast<unsigned char>(text_.peek()) & 0xc0) == 0x80;
         ++text_.at)
      out_ += text_.peek();
  }

  enum class Suffixes { None, Lazy, LazyOrPossessive };

  /// `times` is a quantifier of what stands before it; what may follow it is read here.
  void quantify(const std::string& times, Suffixes suffixes) {
    if (quantified_) {
      out_.insert(atom_, "(?:");
      out_ += ')';
    }
    out_ += times;
    if (text_.peek() == '?' && suffixes != Suffixes::None)
      out_ += text_.pattern[text_.at++];
    else if (text_.peek() == '+' && suffixes == Suffixes::LazyOrPossessive)
      out_ += text_.pattern[text_.at++];
    quantified_ = true;
  }

  /// Reads "{2}", "{2,}", "{,3}" or "{2,3}"; anything else is no quantifier and stays.
  std::optional<std::string> interval() {
    const std::size_t end = text_.rest().find('}');
    if (end == std::string_view::npos || end < 2) return std::nullopt;
    std::string inside(text_.rest().substr(1, end - 1));
    if (inside == "," || std::ranges::count(inside, ',') > 1 ||
        !std::ranges::all_of(inside, [](char c) { return c == ',' || (c >= '0' && c <= '9'); }))
      return std::nullopt;
    if (inside[0] == ',') inside = "0" + inside;
    text_.at += end + 1;
    return "{" + inside + "}";
  }

  void open() {
    groups_.push_back({out_.size(), 0});
    atom_ = out_.size();
    quantified_ = false;
    if (text_.next_is("(?#")) {
      text_.at = std::min(text_.pattern.find(')', text_.at), text_.pattern.size() - 1) + 1;
      groups_.pop_back();
      return;
    }
    if (text_.next_is("(?~")) text_.refuse("an absent operator");
    out_ += '(';
    ++text_.at;
    if (text_.peek() == '*') text_.refuse("a verb");
    if (text_.peek() != '?') return;
    out_ += '?';
    ++text_.at;
    const std::size_t from = text_.at;
    while (text_.peek() == 'i' || text_.peek() == 'm' || text_.peek() == 'x' || text_.peek() == '-')
      ++text_.at;
    if (text_.at > from && (text_.peek() == ':' || text_.peek() == ')')) {
      for (const char option : text_.pattern.substr(from, text_.at - from))
        out_ += option == 'm' ? 's' : option;
      // Options without a colon hold to the end of the group, over its alternatives.
      if (text_.peek() == ')') {
        const Group inner = groups_.back();
        groups_.pop_back();
        (groups_.empty() ? outermost_ : groups_.back()).options += 1;
        atom_ = inner.begin;
      }
      out_ += ':';
      ++text_.at;
      return;
    }
    text_.at = from;
    while (text_.peek() == '<' || text_.peek() == ':' || text_.peek() == '=' ||
           text_.peek() == '!' || text_.peek() == '>')
      out_ += text_.pattern[text_.at++];
  }

  void close_options() {
    Group& group = groups_.empty() ? outermost_ : groups_.back();
    out_.append(static_cast<std::size_t>(group.options), ')');
    group.options = 0;
  }

  void close() {
    close_options();
    if (!groups_.empty()) {
      atom_ = groups_.back().begin;
      groups_.pop_back();
    }
    quantified_ = false;
    out_ += text_.pattern[text_.at++];
  }

  /// An escape outside of brackets; `text_.at` is at its backslash.
  std::string escape() {
    if (auto known = escaped_class(text_.rest())) {
      if (known->inside == word_class()) known->inside += kLatinWords;
      text_.at += known->length;
      return (known->negated ? "[^" : "[") + known->inside + "]";
    }
    const char c = text_.rest().size() > 1 ? text_.rest()[1] : '\0';
    if (c == 'b' || c == 'B') {  // PCRE2's words end before a mark
      text_.at += 2;
      const std::string word = detail::concat("[", word_class(), kLatinWords, "]");
      const std::string ahead[] = {"(?!" + word + ")", "(?=" + word + ")"};
      return "(?:(?<=" + word + ")" + ahead[c == 'B'] + "|(?<!" + word + ")" + ahead[c == 'b'] +
             ")";
    }
    if (c == 'O') {
      text_.at += 2;
      return "(?s:.)";
    }
    if (c == 'X' || c == 'y' || c == 'Y' || c == 'Q' || c == 'E' || c == 'C' || c == 'g')
      text_.refuse(detail::concat("\\", c));
    return text_.character_escape();
  }

  struct Group {
    std::size_t begin = 0;  // in out_
    int options = 0;        // groups for options that end with it
  };

  PatternText text_;
  std::string out_;
  std::size_t atom_ = 0;     // where what a quantifier repeats begins in out_
  bool quantified_ = false;  // what stands there has one already
  std::vector<Group> groups_;
  Group outermost_;
};

}  // namespace

std::string from_oniguruma(std::string_view pattern, bool (*is_script)(std::string_view)) {
  return Translator({.pattern = pattern, .is_script = is_script}).made();
}

}  // namespace cleave::data::tokenizer
