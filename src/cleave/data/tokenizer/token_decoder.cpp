#include "cleave/data/tokenizer/token_decoder.h"

#include <charconv>

#include "cleave/base/utf8.h"
#include "cleave/base/whole_number.h"
#include "cleave/data/tokenizer/byte_alphabet.h"
#include "cleave/data/tokenizer/json_kinds.h"
#include "cleave/data/tokenizer/normalizer.h"

namespace cleave::data::tokenizer {
namespace {

constexpr std::string_view kReplacementCharacter = "\xef\xbf\xbd";

std::string join(const std::vector<std::string>& tokens) {
  std::string text;
  for (const std::string& token : tokens) text += token;
  return text;
}

/// The bytes that names in the byte alphabet stand for. They need not be UTF-8: a character may be
/// cut over tokens, and the caller may have its other half.
class ByteLevelDecoder : public TokenDecoder {
 public:
  void apply(std::vector<std::string>& tokens, RegexScratch&) const override {
    for (std::string& token : tokens) {
      if (auto bytes = from_alphabet(token)) token = std::move(*bytes);
    }
    tokens = {join(tokens)};
  }
};

/// Tokens "<0x61>" one after another become characters, or U+FFFD each if they are none.
class ByteFallbackDecoder : public TokenDecoder {
 public:
  void apply(std::vector<std::string>& tokens, RegexScratch&) const override {
    std::vector<std::string> out;
    std::string bytes;
    const auto flush = [&] {
      if (is_utf8(bytes)) {
        if (!bytes.empty()) out.push_back(bytes);
      } else {
        out.insert(out.end(), bytes.size(), std::string(kReplacementCharacter));
      }
      bytes.clear();
    };
    for (std::string& token : tokens) {
      if (const int byte = byte_of(token); byte >= 0) {
        bytes += static_cast<char>(byte);
      } else {
        flush();
        out.push_back(std::move(token));
      }
    }
    flush();
    tokens = std::move(out);
  }

 private:
  static int byte_of(std::string_view token) {
    if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
    int value = 0;
    const auto [end, error] = std::from_chars(token.data() + 3, token.data() + 5, value, 16);
    return error == std::errc() && end == token.data() + 5 ? value : -1;
  }
};

class FuseDecoder : public TokenDecoder {
 public:
  void apply(std::vector<std::string>& tokens, RegexScratch&) const override {
    tokens = {join(tokens)};
  }
};

/// Takes up to `start` times `content` from the front of each token, and `stop` from its end.
class StripDecoder : public TokenDecoder {
 public:
  StripDecoder(std::string content, int start, int stop)
      : content_(std::move(content)), start_(start), stop_(stop) {}
  void apply(std::vector<std::string>& tokens, RegexScratch&) const override {
    for (std::string& token : tokens) {
      std::string_view rest = token;
      for (int i = 0; i < start_ && rest.starts_with(content_); ++i)
        rest.remove_prefix(content_.size());
      for (int i = 0; i < stop_ && rest.ends_with(content_); ++i)
        rest.remove_suffix(content_.size());
      token = std::string(rest);
    }
  }

 private:
  std::string content_;
  int start_, stop_;
};

class ReplaceDecoder : public TokenDecoder {
 public:
  ReplaceDecoder(Regex pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  void apply(std::vector<std::string>& tokens, RegexScratch& scratch) const override {
    for (std::string& token : tokens) replace_all(token, pattern_, content_, scratch);
  }

 private:
  Regex pattern_;
  std::string content_;
};

/// The replacement becomes a space, or nothing in the first token where one was put before it.
class MetaspaceDecoder : public TokenDecoder {
 public:
  MetaspaceDecoder(std::string_view replacement, bool prepends)
      : pattern_(Regex::literal(replacement)), prepends_(prepends) {}
  void apply(std::vector<std::string>& tokens, RegexScratch& scratch) const override {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      replace_all(tokens[i], pattern_, i == 0 && prepends_ ? "" : " ", scratch);
    }
  }

 private:
  Regex pattern_;
  bool prepends_;
};

class SuffixDecoder : public TokenDecoder {
 public:
  explicit SuffixDecoder(std::string_view suffix) : pattern_(Regex::literal(suffix)) {}
  void apply(std::vector<std::string>& tokens, RegexScratch& scratch) const override {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      replace_all(tokens[i], pattern_, i + 1 == tokens.size() ? "" : " ", scratch);
    }
  }

 private:
  Regex pattern_;
};

void read_decoder(const Json& json, TokenDecoders& list);

template <class T, class... Arguments>
void add_decoder(TokenDecoders& list, Arguments&&... arguments) {
  list.push_back(std::make_unique<T>(std::forward<Arguments>(arguments)...));
}

using MakeDecoder = void (*)(const Json&, TokenDecoders&);

constexpr Kind<MakeDecoder> kDecoders[] = {
    {"Sequence",
     [](const Json& json, TokenDecoders& list) {
       for (const Json& part : list_at(json, "decoders")) read_decoder(part, list);
     }},
    {"ByteLevel", [](const Json&, TokenDecoders& list) { add_decoder<ByteLevelDecoder>(list); }},
    {"ByteFallback",
     [](const Json&, TokenDecoders& list) { add_decoder<ByteFallbackDecoder>(list); }},
    {"Fuse", [](const Json&, TokenDecoders& list) { add_decoder<FuseDecoder>(list); }},
    {"Strip",
     [](const Json& json, TokenDecoders& list) {
       const auto times = [&](const char* key) {
         const int count = whole_number<int>(json.at(key));
         require(count >= 0, "\"", key, "\" of a Strip is ", count, ", which must be 0 or more");
         return count;
       };
       add_decoder<StripDecoder>(list, one_character(json.at("content"), "content"), times("start"),
                                 times("stop"));
     }},
    {"Replace",
     [](const Json& json, TokenDecoders& list) {
       add_decoder<ReplaceDecoder>(list, read_pattern(json.at("pattern")),
                                   json.at("content").get<std::string>());
     }},
    {"Metaspace",
     [](const Json& json, TokenDecoders& list) {
       const bool add = value_or(json, "add_prefix_space", true);
       const auto scheme = value_or<std::string>(json, "prepend_scheme", add ? "always" : "never");
       add_decoder<MetaspaceDecoder>(list, value_or<std::string>(json, "replacement", "▁"),
                                     scheme != "never");
     }},
    {"BPEDecoder",
     [](const Json& json, TokenDecoders& list) {
       add_decoder<SuffixDecoder>(list, value_or<std::string>(json, "suffix", "</w>"));
     }},
};

void read_decoder(const Json& json, TokenDecoders& list) {
  kind_of<MakeDecoder>(json, "decoder", kDecoders).make(json, list);
}

}  // namespace

TokenDecoders read_decoders(const nlohmann::json& json) {
  TokenDecoders list;
  if (!json.is_null()) read_decoder(json, list);
  return list;
}

}  // namespace cleave::data::tokenizer
