#include "cleave/base/nearest.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace cleave {
namespace {

std::string_view last_part(std::string_view dotted) {
  return dotted.substr(dotted.rfind('.') + 1);
}

}  // namespace

int edit_distance(std::string_view a, std::string_view b) {
  std::vector<int> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    int diagonal = row[0];
    row[0] = static_cast<int>(i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const int replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row.back();
}

std::string_view nearest(std::string_view word, std::span<const std::string_view> known) {
  std::string_view best;
  // Beyond a third of the letters it is another word, not a slip.
  int best_distance = std::max(2, static_cast<int>(word.size()) / 3) + 1;
  for (std::string_view candidate : known) {
    const std::string_view a = last_part(word);
    const std::string_view b = last_part(candidate);
    // The right word in the wrong section counts one edit; a short last part must match closely.
    int distance = edit_distance(word, candidate);
    if (const int part = edit_distance(a, b); 3 * part < static_cast<int>(a.size())) {
      distance = std::min(distance, part + 1);
    }
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view word, std::span<const std::string_view> known) {
  const std::string_view best = nearest(word, known);
  return best.empty() ? std::string() : "; did you mean " + std::string(best) + "?";
}

}  // namespace cleave
