#include "cleave/data/tokenizer/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "cleave/base/check.h"
#include "cleave/data/tokenizer/oniguruma.h"
#include "cleave/data/tokenizer/pattern_text.h"

namespace cleave::data::tokenizer {
namespace {

// More than any pattern needs for a text of megabytes; a few seconds of a pattern that explodes.
constexpr std::uint32_t kMostSteps = 50'000'000;
constexpr std::size_t kMostStack = std::size_t{64} << 20;

/// Whether PCRE2 knows a script by this name.
bool is_script(std::string_view name) {
  const std::string pattern = detail::concat("\\p{sc:", name, "}");
  int error = 0;
  std::size_t at = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                   PCRE2_UTF, &error, &at, nullptr);
  pcre2_code_free(code);
  return code != nullptr;
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
  std::string pattern;    // as it was given, for messages

  Code(std::string_view text, std::uint32_t options, std::string_view given)
      : pattern(PatternText{.pattern = given}.shown()) {
    int error = 0;
    std::size_t at = 0;
    code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), options, &error,
                         &at, nullptr);
    char why[200] = {};
    if (code == nullptr) pcre2_get_error_message(error, reinterpret_cast<PCRE2_UCHAR*>(why), 200);
    require(code != nullptr, "the pattern ", pattern, " cannot be used: ", why);
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
    : code_(std::make_unique<Code>(from_oniguruma(pattern, is_script),
                                   PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, pattern)) {}

Regex Regex::literal(std::string_view text) {
  return Regex(std::make_unique<Code>(text, PCRE2_UTF | PCRE2_LITERAL, text));
}

Regex Regex::grapheme() {
  return Regex(std::make_unique<Code>("\\X", PCRE2_UTF | PCRE2_UCP, "\\X"));
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
