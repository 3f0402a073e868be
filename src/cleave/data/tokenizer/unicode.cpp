#include "cleave/data/tokenizer/unicode.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <unordered_map>
#include <vector>

#include "cleave/data/tokenizer/code_point.h"

namespace cleave::data::tokenizer {
namespace {

#include "cleave/data/tokenizer/unicode_tables.inc"

constexpr char32_t kCodePoints = 0x110000;

// Hangul syllables are composed by arithmetic: leading consonant, vowel, trailing consonant or
// none.
constexpr char32_t kSyllable = 0xac00, kLeading = 0x1100, kVowel = 0x1161, kTrailing = 0x11a7;
constexpr char32_t kVowels = 21, kTrailings = 28, kSyllables = 11172;

bool is_syllable(char32_t code) {
  return code >= kSyllable && code < kSyllable + kSyllables;
}

/// Calls `entry` with the numbers of each entry of a list in unicode_tables.inc.
template <class Entry>
void for_each_entry(const char* list, Entry entry) {
  std::vector<char32_t> numbers;
  const char* end = list + std::strlen(list);
  for (const char* at = list; at != end;) {
    std::uint32_t number = 0;
    at = std::from_chars(at, end, number, 16).ptr;
    numbers.push_back(number);
    if (at == end || *at == ';') {
      entry(numbers);
      numbers.clear();
    }
    if (at != end) ++at;
  }
}

using Mapping = std::unordered_map<char32_t, std::u32string>;

Mapping read_mapping(const char* list) {
  Mapping mapping;
  for_each_entry(list, [&](const std::vector<char32_t>& n) {
    mapping[n[0]] = std::u32string(n.begin() + 1, n.end());
  });
  return mapping;
}

/// Everything that unicode_tables.inc says, read once.
struct Tables {
  Mapping canonical = read_mapping(kCanonical);
  Mapping compatible = read_mapping(kCompatible);
  std::unordered_map<std::uint64_t, char32_t> composed;
  std::vector<std::uint8_t> combining = std::vector<std::uint8_t>(kCodePoints);
  /// [form] whether a character neither changes nor takes part in a change of what precedes it.
  std::array<std::vector<bool>, 4> stable;

  static std::uint64_t pair(char32_t a, char32_t b) { return std::uint64_t{a} << 32 | b; }

  Tables() {
    for (auto& form : stable) form.assign(kCodePoints, true);
    for_each_entry(kComposed, [&](const std::vector<char32_t>& n) {
      composed[pair(n[0], n[1])] = n[2];
      mark({Form::Nfc, Form::Nfkc}, n[1]);
    });
    for_each_entry(kClasses, [&](const std::vector<char32_t>& n) {
      for (char32_t code = n[0]; code <= n[1]; ++code) {
        combining[code] = static_cast<std::uint8_t>(n[2]);
        mark({Form::Nfc, Form::Nfd, Form::Nfkc, Form::Nfkd}, code);
      }
    });
    mark_mappings();
    for (char32_t code = kVowel; code < kVowel + kVowels; ++code)
      mark({Form::Nfc, Form::Nfkc}, code);
    for (char32_t code = kTrailing; code < kTrailing + kTrailings; ++code) {
      mark({Form::Nfc, Form::Nfkc}, code);
    }
    for (char32_t code = kSyllable; code < kSyllable + kSyllables; ++code) {
      mark({Form::Nfd, Form::Nfkd}, code);
    }
  }

  void mark(std::initializer_list<Form> forms, char32_t code) {
    for (Form form : forms) stable[static_cast<int>(form)][code] = false;
  }

  /// A character with a decomposition is stable in a composed form if composing gives it back.
  void mark_mappings() {
    std::vector<bool> comes_back(kCodePoints);
    for (const auto& [parts, whole] : composed) comes_back[whole] = true;
    for (const auto& [code, parts] : canonical) {
      mark({Form::Nfd, Form::Nfkd}, code);
      if (!comes_back[code]) mark({Form::Nfc, Form::Nfkc}, code);
    }
    for (const auto& [code, parts] : compatible) mark({Form::Nfkc, Form::Nfkd}, code);
  }
};

const Tables& tables() {
  static const Tables made;
  return made;
}

void decompose(const Tables& unicode, bool compatible, char32_t code, std::u32string& out) {
  if (is_syllable(code)) {
    const char32_t index = code - kSyllable;
    out += kLeading + index / (kVowels * kTrailings);
    out += kVowel + index / kTrailings % kVowels;
    if (index % kTrailings != 0) out += kTrailing + index % kTrailings;
    return;
  }
  if (compatible) {
    const auto at = unicode.compatible.find(code);
    if (at != unicode.compatible.end()) {
      out += at->second;
      return;
    }
  }
  const auto at = unicode.canonical.find(code);
  if (at == unicode.canonical.end()) {
    out += code;
  } else {
    out += at->second;
  }
}

/// Marks that follow each other stand in the order of their classes.
void reorder(const Tables& unicode, std::u32string& text) {
  const auto starts = [&](char32_t code) { return unicode.combining[code] == 0; };
  for (auto at = text.begin(); at != text.end();) {
    if (starts(*at)) {
      ++at;
      continue;
    }
    const auto end = std::find_if(at, text.end(), starts);
    std::stable_sort(at, end, [&](char32_t a, char32_t b) {
      return unicode.combining[a] < unicode.combining[b];
    });
    at = end;
  }
}

/// The character that two make together; 0: none.
char32_t compose_pair(const Tables& unicode, char32_t a, char32_t b) {
  if (a >= kLeading && a < kLeading + 19 && b >= kVowel && b < kVowel + kVowels) {
    return kSyllable + ((a - kLeading) * kVowels + (b - kVowel)) * kTrailings;
  }
  if (is_syllable(a) && (a - kSyllable) % kTrailings == 0 && b > kTrailing &&
      b < kTrailing + kTrailings) {
    return a + (b - kTrailing);
  }
  const auto at = unicode.composed.find(Tables::pair(a, b));
  return at == unicode.composed.end() ? 0 : at->second;
}

void compose(const Tables& unicode, std::u32string& text) {
  std::size_t starter = std::u32string::npos;
  std::size_t kept = 0;
  int last_class = -1;  // of what is kept after the starter; -1: nothing is
  for (const char32_t code : text) {
    const int own = unicode.combining[code];
    if (starter != std::u32string::npos && last_class < own) {
      if (const char32_t whole = compose_pair(unicode, text[starter], code)) {
        text[starter] = whole;
        continue;
      }
    }
    if (own == 0) starter = kept;
    last_class = own == 0 ? -1 : own;
    text[kept++] = code;
  }
  text.resize(kept);
}

}  // namespace

void to_form(Form form, std::string& text) {
  const Tables& unicode = tables();
  const std::vector<bool>& stable = unicode.stable[static_cast<int>(form)];
  const bool compatible = form == Form::Nfkc || form == Form::Nfkd;
  const bool composes = form == Form::Nfc || form == Form::Nfkc;
  const char* end = text.data() + text.size();
  const char* last_stable = text.data();
  const char* copied = text.data();
  std::string out;
  std::u32string part;
  for (const char* at = text.data(); at != end;) {
    const char* here = at;
    if (stable[next_code_point(at)]) {
      last_stable = here;
      continue;
    }
    // From the last stable character, which may combine with what follows, up to the next one.
    for (const char* next = at; at != end && !stable[next_code_point(next)];) at = next;
    out.append(copied, last_stable);
    part.clear();
    for (const char* from = last_stable; from != at;) {
      decompose(unicode, compatible, next_code_point(from), part);
    }
    reorder(unicode, part);
    if (composes) compose(unicode, part);
    for (char32_t code : part) append_code_point(code, out);
    copied = last_stable = at;
  }
  if (copied == text.data()) return;
  out.append(copied, end);
  text = std::move(out);
}

void to_lower_case(std::string& text) {
  static const Mapping lower = read_mapping(kLower);
  std::string out;
  out.reserve(text.size());
  const char* end = text.data() + text.size();
  for (const char* at = text.data(); at != end;) {
    if (static_cast<unsigned char>(*at) < 0x80) {
      const char c = *at++;
      out += static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
      continue;
    }
    const char* here = at;
    const auto found = lower.find(next_code_point(at));
    if (found == lower.end()) {
      out.append(here, at);
    } else {
      for (char32_t code : found->second) append_code_point(code, out);
    }
  }
  text = std::move(out);
}

void strip_marks(std::string& text) {
  static const std::vector<bool> marks = [] {
    std::vector<bool> made(kCodePoints);
    for_each_entry(kMarks, [&](const std::vector<char32_t>& n) {
      std::fill(made.begin() + n[0], made.begin() + n[1] + 1, true);
    });
    return made;
  }();
  char* kept = text.data();
  const char* end = text.data() + text.size();
  for (const char* at = text.data(); at != end;) {
    const char* here = at;
    if (marks[next_code_point(at)]) continue;
    kept = std::copy(here, at, kept);
  }
  text.resize(static_cast<std::size_t>(kept - text.data()));
}

}  // namespace cleave::data::tokenizer
