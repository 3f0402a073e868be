#pragma once

#include <cstdint>
#include <vector>

#include "cleave/ops/compute.h"

namespace cleave::train {

/// Rows that left an owner, and what each was made of: an id, or numbers.
struct SeenRows {
  std::int64_t width = 0;         ///< numbers of a row
  std::vector<float> seen;        ///< [rows, width]
  std::vector<std::int32_t> ids;  ///< [rows]; empty: they were made of numbers
  std::int64_t values_width = 0;
  std::vector<float> values;  ///< [rows, values_width]

  std::int64_t rows() const { return static_cast<std::int64_t>(seen.size()) / width; }
  /// The rows [first, first + count).
  SeenRows part(std::int64_t first, std::int64_t count) const;
};

/// What an inverter made of rows that it had not seen before.
struct Inversion {
  /// The share of ids that it found, or the share of the variance of numbers that it explains.
  double found = 0;
  double guessed = 0;  ///< the same by always guessing the commonest id, or the mean
};

/// Learns from `known`, of which both sides are known, to tell what a row was made of, as somebody
/// could who has data of the same kind and the owner's part of the model, and tries it on `hidden`.
/// A network of two layers, trained with AdamW for a fixed number of steps; the same bits for a
/// seed on every processor.
Inversion invert(ops::Compute& compute, const SeenRows& known, const SeenRows& hidden,
                 std::uint64_t seed);

}  // namespace cleave::train
