#include "cleave/data/tokenizer/train_bpe.h"

#include <algorithm>
#include <optional>
#include <queue>

#include "cleave/base/check.h"
#include "cleave/base/utf8.h"
#include "cleave/data/tokenizer/byte_alphabet.h"
#include "cleave/data/tokenizer/byte_level_json.h"
#include "cleave/data/tokenizer/splitting.h"

namespace cleave::data {
namespace {

using Ids = std::vector<std::int32_t>;
using IdPair = std::pair<std::int32_t, std::int32_t>;

struct PairHash {
  std::size_t operator()(const IdPair& pair) const {
    const auto key =
        static_cast<std::uint64_t>(pair.first) << 32 | static_cast<std::uint32_t>(pair.second);
    return (key ^ key >> 29) * 0x9e3779b97f4a7c15;
  }
};

std::string_view regex_of(std::string_view pattern) {
  for (const WordPattern& known : word_patterns()) {
    if (known.name == pattern) return known.regex;
  }
  return pattern;
}

/// The training itself: words as lists of tokens, and the pairs in them.
class MergeFinder {
 public:
  MergeFinder(const WordCounts& counts, std::int32_t first_byte) : first_byte_(first_byte) {
    std::vector<std::pair<std::string_view, std::int64_t>> sorted(counts.begin(), counts.end());
    std::ranges::sort(sorted);  // the same tokenizer, however the words were counted
    for (const auto& [word, count] : sorted) add(word, count);
    for (const auto& [pair, places] : pairs_) queue_.push({places.count, pair});
  }

  /// The most frequent pair; nothing if none occurs `least` times.
  std::optional<IdPair> best(std::int64_t least) {
    while (!queue_.empty()) {
      const Candidate top = queue_.top();
      queue_.pop();
      const auto at = pairs_.find(top.pair);
      if (at == pairs_.end() || at->second.count < least) continue;
      if (at->second.count == top.count) return top.pair;
      queue_.push({at->second.count, top.pair});
    }
    return std::nullopt;
  }

  void merge(const IdPair& pair, std::int32_t merged) {
    const auto at = pairs_.find(pair);
    const std::vector<std::int32_t> words = std::move(at->second.words);
    pairs_.erase(at);
    changed_.clear();
    for (const std::int32_t word : words) merge_in(word, pair, merged);
    std::ranges::sort(changed_);
    const auto [end, _] = std::ranges::unique(changed_);
    changed_.erase(end, changed_.end());
    for (const IdPair& other : changed_) queue_.push({pairs_[other].count, other});
  }

 private:
  struct Word {
    Ids ids;
    std::int64_t count = 0;
  };
  struct Places {
    std::int64_t count = 0;
    std::vector<std::int32_t> words;  // may name one twice, or one that lost the pair
  };
  struct Candidate {
    std::int64_t count = 0;
    IdPair pair;

    friend bool operator<(const Candidate& a, const Candidate& b) {
      return a.count != b.count ? a.count < b.count : a.pair > b.pair;
    }
  };

  void add(std::string_view word, std::int64_t count) {
    Word added{.count = count};
    const auto index = static_cast<std::int32_t>(words_.size());
    for (char byte : word) added.ids.push_back(first_byte_ + rank_of(byte));
    for (std::size_t i = 0; i + 1 < added.ids.size(); ++i) {
      Places& places = pairs_[{added.ids[i], added.ids[i + 1]}];
      places.count += count;
      if (places.words.empty() || places.words.back() != index) places.words.push_back(index);
    }
    words_.push_back(std::move(added));
  }

  /// Bytes are numbered in the order of their characters, as Hugging Face numbers them.
  static std::int32_t rank_of(char byte) {
    static const std::vector<std::int32_t> ranks = [] {
      std::vector<std::pair<std::string, int>> characters;
      for (int b = 0; b < 256; ++b) {
        const char one = static_cast<char>(b);
        characters.emplace_back("", b);
        tokenizer::append_in_alphabet({&one, 1}, characters.back().first);
      }
      std::ranges::sort(characters);  // UTF-8 sorts by code point
      std::vector<std::int32_t> rank(256);
      for (int i = 0; i < 256; ++i) rank[characters[i].second] = i;
      return rank;
    }();
    return ranks[static_cast<unsigned char>(byte)];
  }

  void merge_in(std::int32_t index, const IdPair& pair, std::int32_t merged) {
    Word& word = words_[index];
    Ids out;
    for (std::size_t i = 0; i < word.ids.size(); ++i) {
      if (i + 1 == word.ids.size() || IdPair(word.ids[i], word.ids[i + 1]) != pair) {
        out.push_back(word.ids[i]);
        continue;
      }
      if (!out.empty()) {
        note({out.back(), pair.first}, -word.count, index);
        note({out.back(), merged}, word.count, index);
      }
      if (i + 2 < word.ids.size()) {
        note({pair.second, word.ids[i + 2]}, -word.count, index);
        note({merged, word.ids[i + 2]}, word.count, index);
      }
      out.push_back(merged);
      ++i;
    }
    word.ids = std::move(out);
  }

  void note(const IdPair& pair, std::int64_t change, std::int32_t word) {
    Places& places = pairs_[pair];
    places.count += change;
    if (change < 0) return;
    changed_.push_back(pair);
    if (places.words.empty() || places.words.back() != word) places.words.push_back(word);
  }

  std::int32_t first_byte_;
  std::vector<Word> words_;
  std::unordered_map<IdPair, Places, PairHash> pairs_;
  std::priority_queue<Candidate> queue_;
  std::vector<IdPair> changed_;
};

std::vector<std::string> byte_names() {
  std::vector<std::string> names;
  for (int b = 0; b < 256; ++b) {
    const char one = static_cast<char>(b);
    tokenizer::append_in_alphabet({&one, 1}, names.emplace_back());
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace

const std::vector<WordPattern>& word_patterns() {
  static const std::vector<WordPattern> patterns = {
      {"gpt4",
       R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
      {"gpt2", R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"},
  };
  return patterns;
}

struct WordCounter::State {
  explicit State(std::string_view pattern)
      : split(tokenizer::Regex(pattern), tokenizer::MatchBecomes::Isolated) {}

  tokenizer::SplitPreTokenizer split;
  tokenizer::Pieces pieces;
  WordCounts counts;
};

WordCounter::WordCounter(std::string_view pattern)
    : state_(std::make_unique<State>(regex_of(pattern))) {}
WordCounter::~WordCounter() = default;
WordCounter::WordCounter(WordCounter&&) noexcept = default;

WordCounts& WordCounter::counts() {
  return state_->counts;
}

void WordCounter::add(std::string_view text) {
  const std::string repaired = is_utf8(text) ? "" : with_broken_replaced(text);
  tokenizer::Pieces& pieces = state_->pieces;
  pieces.text = repaired.empty() ? text : repaired;
  pieces.list.assign(1, {.end = pieces.text.size(), .at_start = true});
  state_->split.apply(pieces);
  for (const tokenizer::TextPiece& piece : pieces.list) {
    ++state_->counts[std::string(pieces.of(piece))];
  }
}

std::string train_bpe(const WordCounts& counts, const BpeTraining& training,
                      const std::function<void(std::int64_t, std::int64_t)>& progress) {
  std::vector<std::string> names = training.special_tokens;
  const auto first_byte = static_cast<std::int32_t>(names.size());
  std::ranges::copy(byte_names(), std::back_inserter(names));
  const auto first = static_cast<std::int64_t>(names.size());
  require(training.vocabulary >= first, "a vocabulary of ", training.vocabulary,
          " has no room for 256 bytes and the special tokens; ask for at least ", first);
  MergeFinder finder(counts, first_byte);
  std::unordered_map<std::string, std::int32_t> ids;
  for (std::size_t i = 0; i < names.size(); ++i) ids[names[i]] = static_cast<std::int32_t>(i);
  std::vector<std::pair<std::string, std::string>> merges;
  while (static_cast<std::int64_t>(names.size()) < training.vocabulary) {
    const auto pair = finder.best(training.least_count);
    if (!pair) break;
    merges.emplace_back(names[pair->first], names[pair->second]);
    // Two merges may make the same token, each from other parts.
    const std::string name = merges.back().first + merges.back().second;
    const auto [at, is_new] = ids.emplace(name, static_cast<std::int32_t>(names.size()));
    if (is_new) names.push_back(name);
    finder.merge(*pair, at->second);
    if (progress && merges.size() % 100 == 0) {
      progress(static_cast<std::int64_t>(merges.size()), training.vocabulary - first);
    }
  }
  return tokenizer::byte_level_json({.names = std::move(names),
                                     .merges = std::move(merges),
                                     .words = std::string(regex_of(training.pattern)),
                                     .special_tokens = training.special_tokens});
}

}  // namespace cleave::data
