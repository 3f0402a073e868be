#include "cleave/data/tokenizer/unigram.h"

#include <algorithm>
#include <limits>

#include "cleave/base/check.h"
#include "cleave/data/tokenizer/byte_alphabet.h"
#include "cleave/data/tokenizer/code_point.h"

namespace cleave::data::tokenizer {
namespace {

constexpr double kUnknownPenalty = 10;  // below the least likely token

}  // namespace

struct Unigram::Scratch : ModelScratch {
  struct End {  // of the best way to a place in the word
    double score = 0;
    std::int32_t token = 0;
    std::int32_t begin = -1;  // of its last token; -1: no way yet
  };
  std::vector<End> ends;
  std::vector<std::pair<std::int32_t, std::int32_t>> path;  // begin and end of tokens, last first
  std::string spelled;
};

Unigram::Unigram(UnigramParts parts) : parts_(std::move(parts)) {
  const auto count = static_cast<std::int32_t>(parts_.tokens.size());
  require(!parts_.unk_id || (*parts_.unk_id >= 0 && *parts_.unk_id < count), "unk_id ",
          parts_.unk_id.value_or(0), " must be below the number of tokens, ", count);
  double least = std::numeric_limits<double>::infinity();
  for (std::int32_t id = 0; id < count; ++id) {
    const auto& [token, score] = parts_.tokens[id];
    vocabulary_.add(token, id);
    if (!token.empty()) trie_.add(token, static_cast<std::uint32_t>(id));
    least = std::min(least, score);
  }
  unknown_score_ = least - kUnknownPenalty;
}

std::unique_ptr<ModelScratch> Unigram::scratch() const {
  return std::make_unique<Scratch>();
}

/// Viterbi: the best way to each place extends the best way to an earlier one.
void Unigram::find_best(std::string_view word, Scratch& scratch) const {
  auto& ends = scratch.ends;
  ends.assign(word.size() + 1, {});
  const auto offer = [&](std::size_t end, Scratch::End way) {
    if (ends[end].begin < 0 || way.score > ends[end].score) ends[end] = way;
  };
  for (std::size_t begin = 0; begin < word.size();) {
    const double before = ends[begin].score;
    const auto length = static_cast<std::size_t>(character_length(word[begin]));
    bool known = false;
    std::uint32_t node = Trie::kRoot;
    for (std::size_t at = begin; at < word.size();) {
      node = trie_.next(node, word[at++]);
      if (node == Trie::kNone) break;
      const std::uint32_t id = trie_.value(node);
      if (id == Trie::kNone) continue;
      offer(at, {parts_.tokens[id].second + before, static_cast<std::int32_t>(id),
                 static_cast<std::int32_t>(begin)});
      known |= at - begin == length;
    }
    if (!known) {
      require(parts_.unk_id.has_value(), "the tokenizer has no token for \"",
              word.substr(begin, length), "\" and no unknown token");
      offer(begin + length,
            {unknown_score_ + before, *parts_.unk_id, static_cast<std::int32_t>(begin)});
    }
    begin += length;
  }
}

void Unigram::add_unknown(std::string_view text, std::vector<std::int32_t>& tokens) const {
  if (const auto id = vocabulary_.id_of(text)) {
    tokens.push_back(*id);
    return;
  }
  const auto byte_token = [&](char c) {
    return vocabulary_.id_of_byte(static_cast<unsigned char>(c));
  };
  if (parts_.byte_fallback &&
      std::ranges::all_of(text, [&](char c) { return byte_token(c).has_value(); })) {
    for (char c : text) tokens.push_back(*byte_token(c));
  } else {
    tokens.push_back(*parts_.unk_id);
  }
}

void Unigram::encode(std::string_view word, Spelling spelling, ModelScratch& memory,
                     std::vector<std::int32_t>& tokens) const {
  auto& scratch = static_cast<Scratch&>(memory);
  if (spelling == Spelling::Bytes) {
    scratch.spelled.clear();
    append_in_alphabet(word, scratch.spelled);
    word = scratch.spelled;
  }
  find_best(word, scratch);
  scratch.path.clear();
  for (auto end = static_cast<std::int32_t>(word.size()); end > 0;) {
    scratch.path.emplace_back(scratch.ends[end].begin, end);
    end = scratch.ends[end].begin;
  }
  // Unknown characters one after another are one piece of text.
  std::int32_t unknown_from = -1;
  for (auto part = scratch.path.rbegin(); part != scratch.path.rend(); ++part) {
    const std::int32_t id = scratch.ends[part->second].token;
    const bool unknown = parts_.unk_id && id == *parts_.unk_id;
    if (unknown && unknown_from < 0) unknown_from = part->first;
    if (!unknown && unknown_from >= 0) {
      add_unknown(word.substr(unknown_from, part->first - unknown_from), tokens);
      unknown_from = -1;
    }
    if (!unknown) tokens.push_back(id);
  }
  if (unknown_from >= 0) add_unknown(word.substr(unknown_from), tokens);
}

}  // namespace cleave::data::tokenizer
