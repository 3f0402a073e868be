#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace cleave::data {

/// How often each word occurs.
using WordCounts = std::unordered_map<std::string, std::int64_t>;

/// Cuts texts into words and counts them; one for each thread.
class WordCounter {
 public:
  /// `pattern` is a name of word_patterns() or a regular expression. Throws UserError if neither.
  explicit WordCounter(std::string_view pattern);
  ~WordCounter();
  WordCounter(WordCounter&&) noexcept;

  void add(std::string_view text);
  WordCounts& counts();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// A named way to cut text into words.
struct WordPattern {
  std::string_view name;
  std::string_view regex;
};
const std::vector<WordPattern>& word_patterns();

struct BpeTraining {
  std::string pattern = "gpt4";
  std::int64_t vocabulary = 32'000;  ///< special tokens, 256 bytes, and as many merges as are left
  std::int64_t least_count = 2;      ///< of a pair that is merged
  std::vector<std::string> special_tokens = {"<|endoftext|>"};
};

/// Trains byte-level BPE: merges the most frequent pair of neighbours, of equally frequent ones the
/// pair with the smaller numbers, again and again. Returns the text of a tokenizer.json that
/// Hugging Face's library loads too. Throws UserError for a vocabulary without room for the bytes.
/// `progress` hears of every hundredth merge: merges done, and how many there will be at most.
std::string train_bpe(const WordCounts& counts, const BpeTraining& training,
                      const std::function<void(std::int64_t, std::int64_t)>& progress = {});

}  // namespace cleave::data
