#include "cleave/data/tokenizer/normalizer.h"

#include <optional>

#include "cleave/data/tokenizer/byte_alphabet.h"
#include "cleave/data/tokenizer/code_point.h"
#include "cleave/data/tokenizer/json_kinds.h"
#include "cleave/data/tokenizer/precompiled.h"
#include "cleave/data/tokenizer/unicode.h"

namespace cleave::data::tokenizer {
namespace {

class FormNormalizer : public Normalizer {
 public:
  explicit FormNormalizer(Form form) : form_(form) {}
  void apply(std::string& text, RegexScratch&) const override { to_form(form_, text); }

 private:
  Form form_;
};

class LowercaseNormalizer : public Normalizer {
 public:
  void apply(std::string& text, RegexScratch&) const override { to_lower_case(text); }
};

class StripAccentsNormalizer : public Normalizer {
 public:
  void apply(std::string& text, RegexScratch&) const override { strip_marks(text); }
};

class StripNormalizer : public Normalizer {
 public:
  StripNormalizer(bool left, bool right) : left_(left), right_(right) {}

  void apply(std::string& text, RegexScratch&) const override {
    const char* begin = text.data();
    const char* end = begin + text.size();
    while (left_ && begin != end) {
      const char* next = begin;
      if (!is_white_space(next_code_point(next))) break;
      begin = next;
    }
    while (right_ && begin != end) {
      const char* last = end - 1;
      while (is_within_character(*last)) --last;
      const char* at = last;
      if (!is_white_space(next_code_point(at))) break;
      end = last;
    }
    text = std::string(begin, end);
  }

 private:
  bool left_, right_;
};

class ReplaceNormalizer : public Normalizer {
 public:
  ReplaceNormalizer(Regex pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  void apply(std::string& text, RegexScratch& scratch) const override {
    replace_all(text, pattern_, content_, scratch);
  }

 private:
  Regex pattern_;
  std::string content_;
};

class PrependNormalizer : public Normalizer {
 public:
  explicit PrependNormalizer(std::string prefix) : prefix_(std::move(prefix)) {}
  void apply(std::string& text, RegexScratch&) const override {
    if (!text.empty()) text.insert(0, prefix_);
  }

 private:
  std::string prefix_;
};

class ByteLevelNormalizer : public Normalizer {
 public:
  void apply(std::string& text, RegexScratch&) const override {
    std::string out;
    append_in_alphabet(text, out);
    text = std::move(out);
  }
};

template <class T, class... Arguments>
void add_normalizer(Normalizers& list, Arguments&&... arguments) {
  list.push_back(std::make_unique<T>(std::forward<Arguments>(arguments)...));
}

using MakeNormalizer = void (*)(const Json&, Normalizers&);

constexpr Kind<MakeNormalizer> kNormalizers[] = {
    {"Sequence",
     [](const Json& json, Normalizers& list) {
       for (const Json& part : list_at(json, "normalizers")) read_normalizer(part, list);
     }},
    {"NFC", [](const Json&, Normalizers& l) { add_normalizer<FormNormalizer>(l, Form::Nfc); }},
    {"NFD", [](const Json&, Normalizers& l) { add_normalizer<FormNormalizer>(l, Form::Nfd); }},
    {"NFKC", [](const Json&, Normalizers& l) { add_normalizer<FormNormalizer>(l, Form::Nfkc); }},
    {"NFKD", [](const Json&, Normalizers& l) { add_normalizer<FormNormalizer>(l, Form::Nfkd); }},
    {"Lowercase", [](const Json&, Normalizers& l) { add_normalizer<LowercaseNormalizer>(l); }},
    {"StripAccents",
     [](const Json&, Normalizers& l) { add_normalizer<StripAccentsNormalizer>(l); }},
    {"Strip",
     [](const Json& json, Normalizers& l) {
       add_normalizer<StripNormalizer>(l, value_or(json, "strip_left", true),
                                       value_or(json, "strip_right", true));
     }},
    {"Replace",
     [](const Json& json, Normalizers& l) {
       add_normalizer<ReplaceNormalizer>(l, read_pattern(json.at("pattern")),
                                         json.at("content").get<std::string>());
     }},
    {"Prepend",
     [](const Json& json, Normalizers& l) {
       add_normalizer<PrependNormalizer>(l, json.at("prepend").get<std::string>());
     }},
    {"ByteLevel", [](const Json&, Normalizers& l) { add_normalizer<ByteLevelNormalizer>(l); }},
    {"Precompiled",
     [](const Json& json, Normalizers& l) {
       add_normalizer<PrecompiledNormalizer>(
           l, json.at("precompiled_charsmap").get_ref<const std::string&>());
     }},
};

/// A tokenizer that makes texts so much longer fills all memory sooner or later.
void check_growth(std::size_t before, std::size_t after) {
  constexpr std::size_t kMostTimes = 64;
  constexpr std::size_t kAlways = std::size_t{1} << 20;
  require(after <= kMostTimes * before + kAlways, "the tokenizer makes ", after, " bytes of ",
          before, " before it cuts them, more than ", kMostTimes,
          " times as many; use another tokenizer");
}

}  // namespace

void read_normalizer(const nlohmann::json& json, Normalizers& normalizers) {
  if (json.is_null()) return;
  kind_of<MakeNormalizer>(json, "normalizer", kNormalizers).make(json, normalizers);
}

void normalize(const Normalizers& normalizers, std::string& text, RegexScratch& scratch) {
  const std::size_t before = text.size();
  for (const auto& step : normalizers) {
    step->apply(text, scratch);
    check_growth(before, text.size());
  }
}

void replace_all(std::string& text, const Regex& pattern, std::string_view content,
                 RegexScratch& scratch) {
  std::string out;
  std::size_t copied = 0;
  std::optional<std::size_t> last_end;
  for (std::size_t from = 0; from <= text.size();) {
    const auto match = pattern.find(text, from, scratch);
    if (!match) break;
    from = match->end;
    if (match->begin == match->end) {
      from += from < text.size() ? static_cast<std::size_t>(character_length(text[from])) : 1;
      if (last_end == match->end) continue;  // nothing is found where a match has just ended
    }
    out.append(text, copied, match->begin - copied);
    out += content;
    check_growth(text.size(), out.size());
    copied = match->end;
    last_end = match->end;
  }
  if (!last_end) return;
  out.append(text, copied);
  text = std::move(out);
}

}  // namespace cleave::data::tokenizer
