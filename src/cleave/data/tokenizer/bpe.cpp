#include "cleave/data/tokenizer/bpe.h"

#include <algorithm>

#include "cleave/base/check.h"
#include "cleave/data/tokenizer/byte_alphabet.h"
#include "cleave/data/tokenizer/code_point.h"

namespace cleave::data::tokenizer {
namespace {

// Below this a scan for the lowest rank beats a heap.
constexpr std::size_t kShortWord = 48;

}  // namespace

struct Bpe::Scratch : ModelScratch {
  struct Symbol {
    std::int32_t token = 0;  // -1: merged into the one before it
    std::int32_t previous = 0;
    std::int32_t next = 0;
  };
  struct Candidate {
    std::uint64_t order = 0;  // rank, then place
    std::int32_t token = 0;

    friend bool operator<(const Candidate& a, const Candidate& b) { return a.order > b.order; }
  };

  std::vector<std::int32_t> tokens;
  std::vector<MergeRule> rules;  // of tokens[i] and tokens[i + 1]
  std::vector<Symbol> symbols;
  std::vector<Candidate> heap;
  bool unknown_waits = false;
};

Bpe::Bpe(BpeParts parts) : parts_(std::move(parts)), merges_(parts_.merges.size()) {
  if (parts_.unk_token) {
    unknown_ = parts_.vocabulary.id_of(*parts_.unk_token);
    require(unknown_.has_value(), "unk_token \"", *parts_.unk_token, "\" is not in the vocabulary");
  }
  add_merges();
  add_symbols();
}

void Bpe::add_merges() {
  std::uint32_t rank = 0;
  const std::string& prefix = parts_.continuing_subword_prefix;
  for (const auto& [left, right] : parts_.merges) {
    const auto a = parts_.vocabulary.id_of(left);
    const auto b = parts_.vocabulary.id_of(right);
    require(a.has_value() && b.has_value(), "merge ", rank, ", \"", left, " ", right,
            "\", is of a token that is not in the vocabulary");
    const std::string_view rest = std::string_view(right).substr(
        !prefix.empty() && right.starts_with(prefix) ? prefix.size() : 0);
    const std::string joined = left + std::string(rest);
    const auto merged = parts_.vocabulary.id_of(joined);
    require(merged.has_value(), "merge ", rank, " makes \"", joined,
            "\", which is not in the vocabulary");
    merges_.add(*a, *b, {rank++, *merged});
  }
  parts_.merges = {};
}

void Bpe::add_symbols() {
  byte_symbol_.fill(-1);
  ascii_symbol_.fill(-1);
  for (int byte = 0; byte < 256; ++byte) {
    byte_fallback_[byte] =
        parts_.vocabulary.id_of_byte(static_cast<unsigned char>(byte)).value_or(-1);
  }
  for (std::int32_t id = 0; id < parts_.vocabulary.size(); ++id) {
    const std::string* token = parts_.vocabulary.token_of(id);
    if (token == nullptr || token->empty()) continue;
    const std::optional<std::string> bytes = from_alphabet(*token);
    neighbours_.add(*token, bytes.value_or(""));
    if (bytes && bytes->size() == 1) byte_symbol_[static_cast<unsigned char>((*bytes)[0])] = id;
    if (bytes && parts_.ignore_merges) words_[*bytes] = id;
    const char* at = token->data();
    const char32_t code = next_code_point(at);
    if (at != token->data() + token->size()) continue;
    if (code < 128) {
      ascii_symbol_[code] = id;
    } else {
      symbols_[code] = id;
    }
  }
}

std::unique_ptr<ModelScratch> Bpe::scratch() const {
  return std::make_unique<Scratch>();
}

std::int32_t Bpe::symbol(char32_t code) const {
  if (code < 128) return ascii_symbol_[code];
  const auto at = symbols_.find(code);
  return at == symbols_.end() ? -1 : at->second;
}

std::size_t Bpe::independent_prefix(std::string_view text, Spelling spelling) const {
  // The ends of a word have tokens of their own.
  if (!parts_.continuing_subword_prefix.empty() || !parts_.end_of_word_suffix.empty()) {
    return text.size();
  }
  if (spelling == Spelling::Bytes) {
    for (std::size_t i = 1; i < text.size(); ++i) {
      const auto left = static_cast<unsigned char>(text[i - 1]);
      const auto right = static_cast<unsigned char>(text[i]);
      if (!neighbours_.bytes_meet(left, right) && byte_symbol_[left] >= 0 &&
          byte_symbol_[right] >= 0) {
        return i;
      }
    }
    return text.size();
  }
  const char* at = text.data();
  const char* end = at + text.size();
  char32_t left = next_code_point(at);
  while (at != end) {
    const char* cut = at;
    const char32_t right = next_code_point(at);
    // Beside a character without a token of its own, unknown ones would be fused over the cut.
    if (!neighbours_.meet(left, right) && symbol(left) >= 0 && symbol(right) >= 0) {
      return static_cast<std::size_t>(cut - text.data());
    }
    left = right;
  }
  return text.size();
}

std::optional<std::int32_t> Bpe::whole_word(std::string_view word, Spelling spelling) const {
  if (!parts_.ignore_merges) return std::nullopt;
  if (spelling == Spelling::Text) return parts_.vocabulary.id_of(word);
  const auto at = words_.find(std::string(word));
  return at == words_.end() ? std::nullopt : std::optional(at->second);
}

void Bpe::encode(std::string_view word, Spelling spelling, ModelScratch& memory,
                 std::vector<std::int32_t>& tokens) const {
  if (const auto id = whole_word(word, spelling)) {
    tokens.push_back(*id);
    return;
  }
  auto& scratch = static_cast<Scratch&>(memory);
  scratch.tokens.clear();
  scratch.unknown_waits = false;
  const bool plain = parts_.continuing_subword_prefix.empty() &&
                     parts_.end_of_word_suffix.empty() && !parts_.byte_fallback;
  if (spelling == Spelling::Bytes && plain) {
    begin_with_bytes(word, scratch);
  } else if (spelling == Spelling::Bytes) {
    std::string spelled;
    append_in_alphabet(word, spelled);
    begin_with_characters(spelled, scratch);
  } else {
    begin_with_characters(word, scratch);
  }
  if (scratch.tokens.size() > 1) {
    scratch.tokens.size() <= kShortWord ? merge_short(scratch) : merge_long(scratch);
  }
  tokens.insert(tokens.end(), scratch.tokens.begin(), scratch.tokens.end());
}

/// Unknown characters one after another are one token if fuse_unk says so. The token waits until a
/// known one comes; byte tokens overtake it, as they do in Hugging Face's library.
void Bpe::add_unknown(Scratch& scratch) const {
  if (!unknown_) return;
  if (scratch.unknown_waits && !parts_.fuse_unk) scratch.tokens.push_back(*unknown_);
  scratch.unknown_waits = true;
}

void Bpe::begin_with_bytes(std::string_view word, Scratch& scratch) const {
  for (char c : word) {
    const std::int32_t token = byte_symbol_[static_cast<unsigned char>(c)];
    if (token < 0) {
      add_unknown(scratch);
      continue;
    }
    if (std::exchange(scratch.unknown_waits, false)) scratch.tokens.push_back(*unknown_);
    scratch.tokens.push_back(token);
  }
  if (scratch.unknown_waits) scratch.tokens.push_back(*unknown_);
}

void Bpe::begin_with_characters(std::string_view word, Scratch& scratch) const {
  const bool plain = parts_.continuing_subword_prefix.empty() && parts_.end_of_word_suffix.empty();
  const char* end = word.data() + word.size();
  for (const char* at = word.data(); at != end;) {
    const char* begin = at;
    const char32_t code = next_code_point(at);
    std::string spelled(plain ? "" : std::string(begin, at));
    if (!plain && begin != word.data()) spelled = parts_.continuing_subword_prefix + spelled;
    if (!plain && at == end) spelled += parts_.end_of_word_suffix;
    const std::int32_t token = plain ? symbol(code) : parts_.vocabulary.id_of(spelled).value_or(-1);
    if (token >= 0) {
      if (std::exchange(scratch.unknown_waits, false)) scratch.tokens.push_back(*unknown_);
      scratch.tokens.push_back(token);
      continue;
    }
    const std::string_view bytes = plain ? std::string_view(begin, at) : std::string_view(spelled);
    const auto fallback = [&](char c) { return byte_fallback_[static_cast<unsigned char>(c)]; };
    if (parts_.byte_fallback &&
        std::ranges::all_of(bytes, [&](char c) { return fallback(c) >= 0; })) {
      for (char c : bytes) scratch.tokens.push_back(fallback(c));
    } else {
      add_unknown(scratch);
    }
  }
  if (scratch.unknown_waits) scratch.tokens.push_back(*unknown_);
}

void Bpe::merge_short(Scratch& scratch) const {
  std::vector<std::int32_t>& tokens = scratch.tokens;
  std::vector<MergeRule>& rules = scratch.rules;
  rules.clear();
  for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
    rules.push_back(merges_.find(tokens[i], tokens[i + 1]));
  }
  while (!rules.empty()) {
    std::size_t best = 0;
    for (std::size_t i = 1; i < rules.size(); ++i) {
      if (rules[i].rank < rules[best].rank) best = i;
    }
    if (rules[best].rank == MergeTable::kNever) return;
    tokens[best] = rules[best].token;
    tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    rules.erase(rules.begin() + static_cast<std::ptrdiff_t>(best));
    if (best > 0) rules[best - 1] = merges_.find(tokens[best - 1], tokens[best]);
    if (best < rules.size()) rules[best] = merges_.find(tokens[best], tokens[best + 1]);
  }
}

void Bpe::queue(Scratch& scratch, std::int32_t at) const {
  const Scratch::Symbol& left = scratch.symbols[at];
  const MergeRule rule = merges_.find(left.token, scratch.symbols[left.next].token);
  if (rule.rank == MergeTable::kNever) return;
  scratch.heap.push_back(
      {std::uint64_t{rule.rank} << 32 | static_cast<std::uint32_t>(at), rule.token});
  std::push_heap(scratch.heap.begin(), scratch.heap.end());
}

void Bpe::merge_long(Scratch& scratch) const {
  auto& symbols = scratch.symbols;
  const auto count = static_cast<std::int32_t>(scratch.tokens.size());
  symbols.clear();
  scratch.heap.clear();
  for (std::int32_t i = 0; i < count; ++i) symbols.push_back({scratch.tokens[i], i - 1, i + 1});
  for (std::int32_t i = 0; i + 1 < count; ++i) queue(scratch, i);
  while (!scratch.heap.empty()) {
    const Scratch::Candidate top = scratch.heap.front();
    std::pop_heap(scratch.heap.begin(), scratch.heap.end());
    scratch.heap.pop_back();
    const auto at = static_cast<std::int32_t>(top.order & 0xffffffff);
    Scratch::Symbol& left = symbols[at];
    if (left.token < 0 || left.next == count) continue;
    Scratch::Symbol& right = symbols[left.next];
    // One of the two may have changed since the pair was queued.
    const MergeRule rule = merges_.find(left.token, right.token);
    if (rule.rank == MergeTable::kNever || rule.token != top.token) continue;
    left.token = rule.token;
    left.next = right.next;
    right.token = -1;
    if (left.next != count) symbols[left.next].previous = at;
    if (left.previous >= 0) queue(scratch, left.previous);
    if (left.next != count) queue(scratch, at);
  }
  scratch.tokens.clear();
  for (std::int32_t i = 0; i < count; i = symbols[i].next)
    scratch.tokens.push_back(symbols[i].token);
}

}  // namespace cleave::data::tokenizer
