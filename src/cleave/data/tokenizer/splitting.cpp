#include "cleave/data/tokenizer/splitting.h"

#include "cleave/data/tokenizer/code_point.h"

namespace cleave::data::tokenizer {
namespace {

/// Takes the parts of one piece in order, matches and what is between them, and gives pieces.
class PartCollector {
 public:
  PartCollector(const TextPiece& whole, MatchBecomes becomes, std::vector<TextPiece>& out)
      : whole_(whole), becomes_(becomes), out_(out), first_(out.size()) {}

  void add(std::size_t begin, std::size_t end, bool is_match) {
    const bool after_match = after_match_;
    after_match_ = is_match && (begin != end || becomes_ != MatchBecomes::MergedWithNext);
    const bool after_any = after_any_;
    after_any_ = true;
    if (becomes_ == MatchBecomes::Removed && is_match) return;
    // A match joins what stands before it unless that is a match too, and the other way round.
    const bool joins = (becomes_ == MatchBecomes::MergedWithPrevious && is_match && !after_match) ||
                       (becomes_ == MatchBecomes::MergedWithNext && !is_match && after_match) ||
                       (becomes_ == MatchBecomes::Contiguous && is_match == after_match);
    if (joins && after_any && out_.size() > first_) {
      out_.back().end = whole_.begin + end;
    } else if (begin != end) {
      out_.push_back({.begin = whole_.begin + begin,
                      .end = whole_.begin + end,
                      .at_start = whole_.at_start && begin == 0});
    }
  }

 private:
  const TextPiece& whole_;
  MatchBecomes becomes_;
  std::vector<TextPiece>& out_;
  std::size_t first_;
  bool after_match_ = false;
  bool after_any_ = false;
};

}  // namespace

void SplitPreTokenizer::apply(Pieces& pieces) const {
  const bool match_is_match = cut_ == Cut::AtMatches;
  pieces.replace([&](const TextPiece& piece, std::vector<TextPiece>& out) {
    const std::string_view text = pieces.of(piece);
    PartCollector collector(piece, becomes_, out);
    std::size_t done = 0;
    std::optional<std::size_t> last_end;
    for (std::size_t from = 0; from <= text.size();) {
      const auto match = pattern_.find(text, from, pieces.scratch);
      if (!match) break;
      from = match->end;
      if (match->begin == match->end) {  // a place between characters, as a lookahead gives
        from += from < text.size() ? static_cast<std::size_t>(character_length(text[from])) : 1;
        if (last_end == match->end) continue;
      }
      last_end = match->end;
      if (match->begin != done) collector.add(done, match->begin, !match_is_match);
      collector.add(match->begin, match->end, match_is_match);
      done = match->end;
    }
    if (done != text.size()) collector.add(done, text.size(), !match_is_match);
  });
}

}  // namespace cleave::data::tokenizer
