#include "cleave/base/nearest.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace cleave {
namespace {

constexpr std::array<std::string_view, 4> kKnown = {"train.steps", "train.lr", "model.layers",
                                                    "data.path"};

/// The whole table, without any short cut.
int plain_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<int>> cells(a.size() + 1, std::vector<int>(b.size() + 1));
  std::iota(cells[0].begin(), cells[0].end(), 0);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    cells[i][0] = static_cast<int>(i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const int replaced = cells[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      cells[i][j] = std::min({cells[i - 1][j] + 1, cells[i][j - 1] + 1, replaced});
    }
  }
  return cells[a.size()][b.size()];
}

/// By the rule, with every distance computed in full.
std::string_view plain_nearest(std::string_view word, std::span<const std::string_view> known) {
  std::string_view best;
  int best_distance = std::max(2, static_cast<int>(word.size()) / 3) + 1;
  const auto last = [](std::string_view dotted) { return dotted.substr(dotted.rfind('.') + 1); };
  for (std::string_view candidate : known) {
    int distance = plain_distance(word, candidate);
    const int part = plain_distance(last(word), last(candidate));
    if (3 * part < static_cast<int>(last(word).size())) distance = std::min(distance, part + 1);
    if (distance >= best_distance) continue;
    best = candidate;
    best_distance = distance;
  }
  return best;
}

/// Few letters, so that many words are near one another.
std::string some_word(std::mt19937& random) {
  std::string word(random() % 12, ' ');
  for (char& letter : word) letter = "aaabbc."[random() % 7];
  return word;
}

TEST(Nearest, CountsInsertionsDeletionsAndReplacements) {
  constexpr std::string_view kWords[] = {"kitten"};
  for (const std::string_view slip : {"kiten", "kittens", "mitten", "kittn", "sittin"})
    EXPECT_EQ(nearest(slip, kWords), "kitten") << slip;
  for (const std::string_view other : {"sitting", "kit", "bitters"})
    EXPECT_EQ(nearest(other, kWords), "") << other;
}

TEST(Nearest, IsWhatFullTablesChoose) {
  std::mt19937 random(2);
  for (int i = 0; i < 2000; ++i) {
    std::vector<std::string> words;
    for (int k = 0; k < 8; ++k) words.push_back(some_word(random));
    const std::vector<std::string_view> known(words.begin(), words.end());
    const std::string word = some_word(random);
    EXPECT_EQ(nearest(word, known), plain_nearest(word, known)) << word << ", case " << i;
  }
}

TEST(Nearest, FindsASlip) {
  EXPECT_EQ(nearest("train.stepz", kKnown), "train.steps");
  EXPECT_EQ(nearest("model.layer", kKnown), "model.layers");
}

TEST(Nearest, FindsTheRightWordInTheWrongSection) {
  EXPECT_EQ(nearest("optimizer.lr", kKnown), "train.lr");
  EXPECT_EQ(nearest("steps", kKnown), "train.steps");
}

TEST(Nearest, StaysSilentWhenNothingIsNear) {
  EXPECT_EQ(nearest("server.port", kKnown), "");
  EXPECT_EQ(did_you_mean("server.port", kKnown), "");
  EXPECT_EQ(did_you_mean("train.step", kKnown), "; did you mean train.steps?");
}

TEST(Nearest, ListsWhatIsKnown) {
  constexpr std::string_view kNames[] = {"gpipe", "1f1b"};
  EXPECT_EQ(known_are("1f2b", kNames), "; did you mean 1f1b? Known are gpipe, 1f1b");
  EXPECT_EQ(known_are("interleaved", kNames), "; known are gpipe, 1f1b");
}

}  // namespace
}  // namespace cleave
