#include "cleave/data/tokenizer/bracket_class.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "cleave/base/check.h"
#include "cleave/data/tokenizer/regex_classes.h"

namespace cleave::data::tokenizer {
namespace {

constexpr int kDeepestClass = 64;  // classes in classes

/// What a `[…]` or one side of an `&&` in it matches: a character of `simple`, which is written
/// as inside of brackets, or what one of the expressions in `others` matches.
struct Side {
  std::string simple;
  std::vector<std::string> others;

  std::string expression() const {
    if (others.empty()) return simple.empty() ? "(?!)" : "[" + simple + "]";
    std::string all = simple.empty() ? "" : "[" + simple + "]";
    for (const std::string& other : others) all += (all.empty() ? "" : "|") + other;
    return "(?:" + all + ")";
  }
};

class BracketReader {
 public:
  explicit BracketReader(PatternText& text) : text_(text) {}

  std::string bracket() {
    if (++depth_ > kDeepestClass) text_.refuse("classes in classes without end");
    ++text_.at;
    const bool negated = text_.peek() == '^';
    if (negated) ++text_.at;
    std::vector<Side> sides(1);
    bool first = true;
    for (; text_.peek() != ']' || first; first = false) {
      if (text_.ended()) text_.refuse("a class without an end");
      if (text_.next_is("&&")) {
        text_.at += 2;
        sides.emplace_back();
        continue;
      }
      add_item(sides.back());
    }
    ++text_.at;
    --depth_;
    if (sides.size() == 1 && sides[0].others.empty())
      return (negated ? "[^" : "[") + sides[0].simple + "]";
    std::string all = sides.back().expression();
    for (std::size_t i = sides.size() - 1; i-- > 0;)
      all = "(?:(?=" + sides[i].expression() + ")" + all + ")";
    return negated ? "(?:(?!" + all + ")(?s:.))" : all;
  }

 private:
  void add_item(Side& side) {
    if (text_.next_is("[:")) {
      if (add_posix(side)) return;
    }
    if (text_.peek() == '[') {
      side.others.push_back(bracket());
      return;
    }
    if (const auto known = escaped_class(text_.rest())) {
      text_.at += known->length;
      add_class(side, known->inside, known->negated);
      return;
    }
    if (text_.peek() == '\\') {
      const bool is_class =
          text_.rest().size() > 1 && (text_.rest()[1] == 'p' || text_.rest()[1] == 'P');
      side.simple += text_.character_escape();
      if (is_class) protect_dash(side);
      return;
    }
    side.simple += text_.pattern[text_.at++];
  }

  void add_class(Side& side, const std::string& inside, bool negated) {
    if (negated) {
      side.others.push_back("[^" + inside + "]");
    } else {
      side.simple += inside;
    }
    protect_dash(side);
  }

  /// A dash after a class stands for itself.
  void protect_dash(Side& side) {
    if (text_.peek() != '-') return;
    side.simple += "\\-";
    ++text_.at;
  }

  /// "[:alpha:]" or "[:^alpha:]"; false if it is neither.
  bool add_posix(Side& side) {
    const std::size_t end = text_.rest().find(":]");
    if (end == std::string_view::npos) return false;
    std::string_view name = text_.rest().substr(2, end - 2);
    const bool negated = name.starts_with('^');
    if (negated) name.remove_prefix(1);
    if (name.empty() || !std::ranges::all_of(name, [](char c) { return c >= 'a' && c <= 'z'; }))
      return false;
    const std::optional<std::string> inside = posix_class(name);
    if (!inside) text_.refuse(detail::concat("[:", name, ":]"));
    text_.at += end + 2;
    add_class(side, *inside, negated);
    return true;
  }

  PatternText& text_;
  int depth_ = 0;
};

}  // namespace

std::string bracket_class(PatternText& text) {
  return BracketReader(text).bracket();
}

}  // namespace cleave::data::tokenizer
