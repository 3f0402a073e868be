#include "cleave/data/tokenizer/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "cleave/base/check.h"

namespace cleave::data::tokenizer {
namespace {

// More than any pattern needs for a text of megabytes; a few seconds of a pattern that explodes.
constexpr std::uint32_t kMostSteps = 50'000'000;
constexpr std::size_t kMostStack = std::size_t{64} << 20;

// What Unicode 15 and 16 have added to a category; PCRE2 10.42 knows Unicode 14.
constexpr std::string_view kNewLetters =
    R"(\x{1c89}-\x{1c8a}\x{a7cb}-\x{a7cd}\x{a7da}-\x{a7dc}\x{105c0}-\x{105f3})"
    R"(\x{10d4a}-\x{10d65}\x{10d6f}-\x{10d85}\x{10ec2}-\x{10ec4}\x{1123f}-\x{11240})"
    R"(\x{11380}-\x{11389}\x{1138b}\x{1138e}\x{11390}-\x{113b5}\x{113b7}\x{113d1}\x{113d3})"
    R"(\x{11bc0}-\x{11be0}\x{11f02}\x{11f04}-\x{11f10}\x{11f12}-\x{11f33}\x{1342f})"
    R"(\x{13441}-\x{13446}\x{13460}-\x{143fa}\x{16100}-\x{1611d}\x{16d40}-\x{16d6c})"
    R"(\x{18cff}\x{1b132}\x{1b155}\x{1df25}-\x{1df2a}\x{1e030}-\x{1e06d}\x{1e4d0}-\x{1e4eb})"
    R"(\x{1e5d0}-\x{1e5ed}\x{1e5f0}\x{2b739}\x{2ebf0}-\x{2ee5d}\x{31350}-\x{323af})";
constexpr std::string_view kNewMarks =
    R"(\x{897}\x{cf3}\x{ece}\x{10d69}-\x{10d6d}\x{10efc}-\x{10eff}\x{11241})"
    R"(\x{113b8}-\x{113c0}\x{113c2}\x{113c5}\x{113c7}-\x{113ca}\x{113cc}-\x{113d0}\x{113d2})"
    R"(\x{113e1}-\x{113e2}\x{11f00}-\x{11f01}\x{11f03}\x{11f34}-\x{11f3a})"
    R"(\x{11f3e}-\x{11f42}\x{11f5a}\x{13440}\x{13447}-\x{13455}\x{1611e}-\x{1612f}\x{1e08f})"
    R"(\x{1e4ec}-\x{1e4ef}\x{1e5ee}-\x{1e5ef})";
constexpr std::string_view kNewNumbers =
    R"(\x{10d40}-\x{10d49}\x{116d0}-\x{116e3}\x{11bf0}-\x{11bf9}\x{11f50}-\x{11f59})"
    R"(\x{16130}-\x{16139}\x{16d70}-\x{16d79}\x{1ccf0}-\x{1ccf9}\x{1d2c0}-\x{1d2d3})"
    R"(\x{1e4f0}-\x{1e4f9}\x{1e5f1}-\x{1e5fa})";
constexpr std::string_view kNewPunctuation =
    R"(\x{1b4e}-\x{1b4f}\x{1b7f}\x{10d6e}\x{113d4}-\x{113d5}\x{113d7}-\x{113d8})"
    R"(\x{11b00}-\x{11b09}\x{11be1}\x{11f43}-\x{11f4f}\x{16d6d}-\x{16d6f}\x{1e5ff})";

/// What stands for an escape inside of brackets, in up to four parts. PCRE2's \s counts U+180E, its
/// \w (before 10.43) no marks, and its \h is a space.
struct EscapedClass {
  std::string_view escape;  // without the backslash, in lower case
  std::string_view parts[4];
};

constexpr EscapedClass kEscapedClasses[] = {
    {"s",
     {R"(\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})"}},
    {"w",
     {R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{24b6}-\x{24e9}\x{1f130}-\x{1f149}\x{1f150}-\x{1f169}\x{1f170}-\x{1f189})",
      kNewLetters, kNewMarks, kNewNumbers}},
    {"d", {R"(\p{Nd})", kNewNumbers}},
    {"h", {"0-9A-Fa-f"}},
    {"p{L}", {R"(\p{L})", kNewLetters}},
    {"p{M}", {R"(\p{M})", kNewMarks}},
    {"p{N}", {R"(\p{N})", kNewNumbers}},
    {"p{P}", {R"(\p{P})", kNewPunctuation}},
};

/// The class that `rest`, what follows a backslash, begins with, and whether it is negated.
const EscapedClass* class_at(std::string_view rest, bool& negated) {
  const char first = rest.empty() ? '\0' : rest[0];
  negated = first >= 'A' && first <= 'Z';
  const char lower = static_cast<char>(negated ? first + 32 : first);
  for (const EscapedClass& known : kEscapedClasses) {
    if (known.escape[0] == lower && rest.substr(1).starts_with(known.escape.substr(1))) {
      return &known;
    }
  }
  return nullptr;
}

/// The pattern with Oniguruma's classes spelled out. A negated class inside of brackets has no such
/// spelling and stays PCRE2's.
std::string in_pcre2_syntax(std::string_view pattern) {
  std::string out;
  bool in_brackets = false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c != '\\') {
      if (c == '[') in_brackets = true;
      if (c == ']') in_brackets = false;
      out += c;
      continue;
    }
    bool negated = false;
    const EscapedClass* known = class_at(pattern.substr(i + 1), negated);
    if (known == nullptr || (negated && in_brackets)) {
      out += pattern.substr(i, 2);
      ++i;
      continue;
    }
    i += known->escape.size();
    if (!in_brackets) out += negated ? "[^" : "[";
    for (const std::string_view part : known->parts) out += part;
    if (!in_brackets) out += ']';
  }
  return out;
}

}  // namespace

struct RegexScratch::State {
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  // Only the whole match is of interest, never a group.
  pcre2_match_data* match = pcre2_match_data_create(1, nullptr);
  pcre2_jit_stack* stack = pcre2_jit_stack_create(32 * 1024, kMostStack, nullptr);

  State() {
    pcre2_set_match_limit(context, kMostSteps);
    pcre2_jit_stack_assign(context, nullptr, stack);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    pcre2_jit_stack_free(stack);
    pcre2_match_data_free(match);
    pcre2_match_context_free(context);
  }
};

RegexScratch::RegexScratch() = default;
RegexScratch::~RegexScratch() = default;
RegexScratch::RegexScratch(RegexScratch&&) noexcept = default;
RegexScratch& RegexScratch::operator=(RegexScratch&&) noexcept = default;

struct Regex::Code {
  pcre2_code* code = nullptr;
  bool compiled = false;  // to machine code
  std::string pattern;

  Code(std::string_view text, std::uint32_t options) : pattern(text) {
    int error = 0;
    std::size_t at = 0;
    code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), options, &error,
                         &at, nullptr);
    char why[200] = {};
    if (code == nullptr) pcre2_get_error_message(error, reinterpret_cast<PCRE2_UCHAR*>(why), 200);
    require(code != nullptr, "the pattern ", text, " cannot be used: ", why, " at byte ", at);
    compiled = pcre2_jit_compile(code, PCRE2_JIT_COMPLETE) == 0;
  }
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
  ~Code() { pcre2_code_free(code); }
};

Regex::Regex(std::unique_ptr<Code> code) : code_(std::move(code)) {}
Regex::Regex(Regex&&) noexcept = default;
Regex::~Regex() = default;

Regex::Regex(std::string_view pattern)
    : code_(std::make_unique<Code>(in_pcre2_syntax(pattern),
                                   PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE)) {}

Regex Regex::literal(std::string_view text) {
  return Regex(std::make_unique<Code>(text, PCRE2_UTF | PCRE2_LITERAL));
}

std::optional<Match> Regex::find(std::string_view text, std::size_t from,
                                 RegexScratch& scratch) const {
  if (!scratch.state_) scratch.state_ = std::make_unique<RegexScratch::State>();
  const RegexScratch::State& state = *scratch.state_;
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  const int found = code_->compiled ? pcre2_jit_match(code_->code, subject, text.size(), from, 0,
                                                      state.match, state.context)
                                    : pcre2_match(code_->code, subject, text.size(), from,
                                                  PCRE2_NO_UTF_CHECK, state.match, state.context);
  if (found == PCRE2_ERROR_NOMATCH) return std::nullopt;
  require(found >= 0, "the pattern ", code_->pattern, " takes too many steps (PCRE2 error ", found,
          "); use another tokenizer");
  const std::size_t* at = pcre2_get_ovector_pointer(state.match);
  return Match{at[0], at[1]};
}

}  // namespace cleave::data::tokenizer
