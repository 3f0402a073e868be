#include "cleave/base/nearest.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

namespace cleave {
namespace {

std::string_view last_part(std::string_view dotted) {
  return dotted.substr(dotted.rfind('.') + 1);
}

/// Letters to insert, drop or replace to turn `a` into `b` (Levenshtein), or some number from
/// `limit` on if it is at least that: most words differ by more than a slip, which their lengths or
/// first letters show. `row` is scratch.
///
/// Only cells with |i - j| < limit can lie on the way to a distance below it:
///
///           k i t t e n
///         0 1 2 . . . .
///       s 1 1 2 3 . . .     limit 3; a dot is at least 3 and is not looked at
///       i 2 2 1 2 3 . .
///       t . 3 2 1 2 3 .
int distance_below(int limit, std::string_view a, std::string_view b, std::vector<int>& row) {
  const int height = static_cast<int>(a.size());
  const int width = static_cast<int>(b.size());
  if (std::abs(height - width) >= limit) return limit;
  if (row.size() <= b.size()) row.resize(b.size() + 1);
  for (int j = 0; j <= std::min(width, limit); ++j) row[j] = j;
  for (int i = 1; i <= height; ++i) {
    const int first = std::max(1, i - limit + 1);
    const int last = std::min(width, i + limit - 1);
    if (last == i + limit - 1) row[last] = limit;
    int diagonal = row[first - 1];
    int least = row[first - 1] = first == 1 ? i : limit;
    for (int j = first; j <= last; ++j) {
      const int replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min(std::min(row[j], row[j - 1]) + 1, replaced);
      least = std::min(least, row[j]);
    }
    if (least >= limit) return limit;
  }
  return row[width];
}

}  // namespace

std::string_view nearest(std::string_view word, std::span<const std::string_view> known) {
  std::vector<int> row;
  const std::string_view last = last_part(word);
  // The right word in the wrong section counts one edit; a short last part must match closely.
  const int part_limit = (static_cast<int>(last.size()) + 2) / 3;
  std::string_view best;
  // Beyond a third of the letters it is another word, not a slip.
  int best_distance = std::max(2, static_cast<int>(word.size()) / 3) + 1;
  for (std::string_view candidate : known) {
    int distance = distance_below(best_distance, word, candidate, row);
    const int limit = std::min(part_limit, distance - 1);
    if (const int part = distance_below(limit, last, last_part(candidate), row); part < limit)
      distance = part + 1;
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

std::string known_are(std::string_view word, std::span<const std::string_view> known) {
  const std::string hint = did_you_mean(word, known);
  std::string text = hint.empty() ? "; known are " : hint + " Known are ";
  for (std::size_t i = 0; i < known.size(); ++i) (text += i == 0 ? "" : ", ") += known[i];
  return text;
}

}  // namespace cleave
