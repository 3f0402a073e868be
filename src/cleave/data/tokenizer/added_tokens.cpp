#include "cleave/data/tokenizer/added_tokens.h"

#include <algorithm>

#include "cleave/data/tokenizer/code_point.h"

namespace cleave::data::tokenizer {
namespace {

/// Where the last character before `end` begins.
std::size_t character_before(std::string_view text, std::size_t end) {
  std::size_t at = end - 1;
  while ((static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) --at;
  return at;
}

bool is_space_at(std::string_view text, std::size_t at) {
  const char* character = text.data() + at;
  return is_white_space(next_code_point(character));
}

bool is_word_at(std::string_view text, std::size_t at, RegexScratch& scratch) {
  static const Regex word(R"([\w\x{200c}\x{200d}])");
  const auto length = static_cast<std::size_t>(character_length(text[at]));
  return word.find(text.substr(at, length), 0, scratch).has_value();
}

bool stands_alone(std::string_view text, const TextPiece& at, RegexScratch& scratch) {
  if (at.begin > 0 && is_word_at(text, character_before(text, at.begin), scratch)) return false;
  return at.end == text.size() || !is_word_at(text, at.end, scratch);
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens, const Normalizers& normalizers)
    : tokens_(std::move(tokens)) {
  RegexScratch scratch;
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    AddedToken& token = tokens_[i];
    by_id_[token.id] = i;
    token.spelled = token.content;
    if (token.normalized) normalize(normalizers, token.spelled, scratch);
  }
  // Of tokens with one spelling the first counts, and special ones come before others. Hugging
  // Face's library takes one or the other from run to run.
  for (const bool special : {true, false}) {
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      const AddedToken& token = tokens_[i];
      if (token.special == special && !token.spelled.empty())
        (token.normalized ? normalized_ : raw_).add(token.spelled, i);
    }
  }
}

const AddedToken* AddedTokens::find(std::int32_t id) const {
  const auto at = by_id_.find(id);
  return at == by_id_.end() ? nullptr : &tokens_[at->second];
}

void AddedTokens::Matcher::add(std::string_view text, std::size_t token) {
  std::uint32_t node = Trie::kRoot;
  for (const char byte : text)
    if (node != Trie::kNone) node = trie.next(node, byte);
  if (node != Trie::kNone && trie.value(node) != Trie::kNone) return;
  trie.add(text, static_cast<std::uint32_t>(token));
  begins[static_cast<unsigned char>(text[0])] = true;
}

bool AddedTokens::Matcher::find(std::string_view text, std::size_t from, TextPiece& found) const {
  for (; from < text.size(); ++from) {
    if (!begins[static_cast<unsigned char>(text[from])]) continue;
    std::uint32_t node = Trie::kRoot;
    found.token = -1;
    for (std::size_t at = from; at < text.size();) {
      node = trie.next(node, text[at++]);
      if (node == Trie::kNone) break;
      if (trie.value(node) != Trie::kNone) {
        found = {from, at, static_cast<std::int32_t>(trie.value(node)), false};
      }
    }
    if (found.token >= 0) return true;
  }
  return false;
}

void AddedTokens::Matcher::extract(Pieces& pieces, const std::vector<AddedToken>& tokens) const {
  if (trie.empty()) return;
  pieces.replace([&](const TextPiece& whole, std::vector<TextPiece>& out) {
    const std::string_view text = pieces.of(whole);
    const auto add = [&](std::size_t begin, std::size_t end, std::int32_t id) {
      out.push_back({whole.begin + begin, whole.begin + end, id, whole.at_start && begin == 0});
    };
    std::size_t done = 0;
    TextPiece match;
    for (std::size_t from = 0; find(text, from, match); from = match.end) {
      const AddedToken& token = tokens[match.token];
      if (token.single_word && !stands_alone(text, match, pieces.scratch)) continue;
      std::size_t begin = match.begin;
      std::size_t end = match.end;
      if (token.lstrip) {
        while (begin > done && is_space_at(text, character_before(text, begin)))
          begin = character_before(text, begin);
        begin = std::max(begin, done);
      }
      while (token.rstrip && end < text.size() && is_space_at(text, end)) {
        end += static_cast<std::size_t>(character_length(text[end]));
      }
      // The token before may have taken all of it as white space.
      if (begin >= end) continue;
      if (done < begin) add(done, begin, -1);
      add(begin, end, token.id);
      done = end;
    }
    if (done < text.size()) add(done, text.size(), -1);
  });
}

}  // namespace cleave::data::tokenizer
