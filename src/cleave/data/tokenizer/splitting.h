#pragma once

#include <cstdint>
#include <vector>

#include "cleave/data/tokenizer/pieces.h"
#include "cleave/data/tokenizer/pre_tokenizer.h"

namespace cleave::data::tokenizer {

/// What becomes of a match.
enum class MatchBecomes : std::uint8_t {
  Removed,
  Isolated,
  MergedWithPrevious,
  MergedWithNext,
  Contiguous,  ///< isolated, but one after another they are one piece
};

/// Cuts pieces at the matches of a pattern; `Invert` cuts at what is between them.
class SplitPreTokenizer : public PreTokenizer {
 public:
  enum class Cut : std::uint8_t { AtMatches, Invert };

  SplitPreTokenizer(Regex pattern, MatchBecomes becomes, Cut cut = Cut::AtMatches)
      : pattern_(std::move(pattern)), becomes_(becomes), cut_(cut) {}

  void apply(Pieces& pieces) const override;

 private:
  Regex pattern_;
  MatchBecomes becomes_;
  Cut cut_;
};

}  // namespace cleave::data::tokenizer
