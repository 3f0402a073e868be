#include "cleave/data/tokenizer/pre_tokenizer.h"

#include "cleave/data/tokenizer/byte_alphabet.h"
#include "cleave/data/tokenizer/code_point.h"
#include "cleave/data/tokenizer/json_kinds.h"
#include "cleave/data/tokenizer/splitting.h"

namespace cleave::data::tokenizer {
namespace {

/// GPT-2's pattern: English contractions, then runs of letters, digits, others, each with the space
/// before it; of several spaces the last stays with the word.
constexpr std::string_view kByteLevelPattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
// Rust's \w, unlike Oniguruma's, has the two joiners.
constexpr std::string_view kWordOrNot = R"([\w\x{200c}\x{200d}]+|[^\w\s\x{200c}\x{200d}]+)";
// As their library has it: of an older edition of Unicode than that of its expressions.
#include "cleave/data/tokenizer/punctuation.inc"

class ByteLevelPreTokenizer : public PreTokenizer {
 public:
  ByteLevelPreTokenizer(bool add_prefix_space, bool use_regex)
      : add_prefix_space_(add_prefix_space) {
    if (use_regex) {
      split_ =
          std::make_unique<SplitPreTokenizer>(Regex(kByteLevelPattern), MatchBecomes::Isolated);
    }
  }

  void apply(Pieces& pieces) const override {
    if (add_prefix_space_) {
      pieces.rewrite([&](const TextPiece& piece, std::string& out) {
        if (!pieces.of(piece).starts_with(' ')) out += ' ';
        out += pieces.of(piece);
      });
    }
    if (split_) split_->apply(pieces);
    if (last_) {
      pieces.spelling = Spelling::Bytes;  // the model knows both spellings
    } else {
      pieces.rewrite([&](const TextPiece& piece, std::string& out) {
        append_in_alphabet(pieces.of(piece), out);
      });
    }
  }

  void be_last() override { last_ = true; }

 private:
  bool add_prefix_space_;
  bool last_ = false;
  std::unique_ptr<SplitPreTokenizer> split_;
};

enum class Prepend : std::uint8_t { Always, First, Never };

class MetaspacePreTokenizer : public PreTokenizer {
 public:
  MetaspacePreTokenizer(std::string replacement, Prepend prepend, bool split)
      : replacement_(std::move(replacement)), prepend_(prepend) {
    if (split) {
      split_ = std::make_unique<SplitPreTokenizer>(Regex::literal(replacement_),
                                                   MatchBecomes::MergedWithNext);
    }
  }

  void apply(Pieces& pieces) const override {
    pieces.rewrite([&](const TextPiece& piece, std::string& out) {
      const std::string_view text = pieces.of(piece);
      const bool wanted =
          prepend_ == Prepend::Always || (prepend_ == Prepend::First && piece.at_start);
      if (wanted && !text.starts_with(' ') && !text.starts_with(replacement_)) out += replacement_;
      for (std::size_t from = 0; from < text.size();) {
        const std::size_t space = std::min(text.find(' ', from), text.size());
        out += text.substr(from, space - from);
        if (space < text.size()) out += replacement_;
        from = space + 1;
      }
    });
    if (split_) split_->apply(pieces);
  }

 private:
  std::string replacement_;
  Prepend prepend_;
  std::unique_ptr<SplitPreTokenizer> split_;
};

MatchBecomes read_behavior(const Json& json) {
  constexpr std::pair<std::string_view, MatchBecomes> kBehaviors[] = {
      {"Removed", MatchBecomes::Removed},
      {"Isolated", MatchBecomes::Isolated},
      {"MergedWithPrevious", MatchBecomes::MergedWithPrevious},
      {"MergedWithNext", MatchBecomes::MergedWithNext},
      {"Contiguous", MatchBecomes::Contiguous}};
  const auto name = value_or<std::string>(json, "behavior", "Isolated");
  for (const auto& [known, becomes] : kBehaviors) {
    if (known == name) return becomes;
  }
  throw UserError(detail::concat("behavior \"", name, "\" of a pre_tokenizer is not known"));
}

Prepend read_prepend(const Json& json) {
  const bool add = value_or(json, "add_prefix_space", true);
  const auto scheme = value_or<std::string>(json, "prepend_scheme", add ? "always" : "never");
  require(scheme == "always" || scheme == "first" || scheme == "never", "prepend_scheme \"", scheme,
          "\" must be always, first or never");
  return scheme == "always" ? Prepend::Always : scheme == "first" ? Prepend::First : Prepend::Never;
}

void read_pre_tokenizer(const Json& json, PreTokenizers& list);

template <class T, class... Arguments>
void add_pre_tokenizer(PreTokenizers& list, Arguments&&... arguments) {
  list.push_back(std::make_unique<T>(std::forward<Arguments>(arguments)...));
}

void add_split(PreTokenizers& list, std::string_view pattern, MatchBecomes becomes) {
  add_pre_tokenizer<SplitPreTokenizer>(list, Regex(pattern), becomes);
}

using MakePreTokenizer = void (*)(const Json&, PreTokenizers&);

constexpr Kind<MakePreTokenizer> kPreTokenizers[] = {
    {"Sequence",
     [](const Json& json, PreTokenizers& list) {
       for (const Json& part : list_at(json, "pretokenizers")) read_pre_tokenizer(part, list);
     }},
    {"ByteLevel",
     [](const Json& json, PreTokenizers& list) {
       add_pre_tokenizer<ByteLevelPreTokenizer>(list, value_or(json, "add_prefix_space", true),
                                                value_or(json, "use_regex", true));
     }},
    {"Metaspace",
     [](const Json& json, PreTokenizers& list) {
       add_pre_tokenizer<MetaspacePreTokenizer>(
           list, one_character(value_or<std::string>(json, "replacement", "▁"), "replacement"),
           read_prepend(json), value_or(json, "split", true));
     }},
    {"Split",
     [](const Json& json, PreTokenizers& list) {
       using Cut = SplitPreTokenizer::Cut;
       const bool invert = value_or(json, "invert", false);
       add_pre_tokenizer<SplitPreTokenizer>(list, read_pattern(json.at("pattern")),
                                            read_behavior(json),
                                            invert ? Cut::Invert : Cut::AtMatches);
     }},
    {"Digits",
     [](const Json& json, PreTokenizers& list) {
       const bool each = value_or(json, "individual_digits", false);
       add_split(list, R"(\p{N})", each ? MatchBecomes::Isolated : MatchBecomes::Contiguous);
     }},
    {"Punctuation",
     [](const Json& json, PreTokenizers& list) {
       add_split(list, kPunctuation, read_behavior(json));
     }},
    {"Whitespace",
     [](const Json&, PreTokenizers& list) {
       add_pre_tokenizer<SplitPreTokenizer>(list, Regex(kWordOrNot), MatchBecomes::Removed,
                                            SplitPreTokenizer::Cut::Invert);
     }},
    {"WhitespaceSplit",
     [](const Json&, PreTokenizers& list) { add_split(list, R"(\s)", MatchBecomes::Removed); }},
    {"BertPreTokenizer",
     [](const Json&, PreTokenizers& list) {
       add_split(list, R"(\s)", MatchBecomes::Removed);
       add_split(list, kPunctuation, MatchBecomes::Isolated);
     }},
    {"CharDelimiterSplit",
     [](const Json& json, PreTokenizers& list) {
       add_pre_tokenizer<SplitPreTokenizer>(
           list, Regex::literal(one_character(json.at("delimiter"), "delimiter")),
           MatchBecomes::Removed);
     }},
};

void read_pre_tokenizer(const Json& json, PreTokenizers& list) {
  kind_of<MakePreTokenizer>(json, "pre_tokenizer", kPreTokenizers).make(json, list);
}

}  // namespace

PreTokenizers read_pre_tokenizers(const nlohmann::json& json) {
  PreTokenizers list;
  if (!json.is_null()) read_pre_tokenizer(json, list);
  if (!list.empty()) list.back()->be_last();
  return list;
}

}  // namespace cleave::data::tokenizer
