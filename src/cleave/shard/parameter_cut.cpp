#include "cleave/shard/parameter_cut.h"

#include <algorithm>
#include <utility>

#include "cleave/base/check.h"

namespace cleave::shard {
namespace {

/// Elements [start, start + extent) along the dim that a parameter is cut in.
struct Range {
  std::int64_t start = 0;
  std::int64_t extent = 0;
  bool copy = false;
};

void check_divides(const CutSpan& span, const ShardNumber& shard) {
  if (span.shareable) {
    require(span.units % shard.of == 0 || shard.of % span.units == 0, span.what, " ", span.units,
            " and ", shard.of,
            " tensor shards do not fit: one must divide the other; change numerics.tensor_shards");
    return;
  }
  require(span.units % shard.of == 0, span.what, " ", span.units, " cannot be divided among ",
          shard.of,
          " tensor shards; choose numerics.tensor_shards (or parallel.tensor) that divides it");
}

/// How many neighbouring shards have the same units of a span.
int sharers_of(const CutSpan& span, int shards) {
  return static_cast<int>(std::max<std::int64_t>(1, shards / span.units));
}

/// What a shard has of a span that begins at `begin`. Of the shards that share a unit the first one
/// owns it.
Range range_of(const CutSpan& span, std::int64_t begin, const ShardNumber& shard) {
  check_divides(span, shard);
  const std::int64_t units = std::max<std::int64_t>(1, span.units / shard.of);
  return {.start = begin + shard.index * span.units / shard.of * span.width,
          .extent = units * span.width,
          .copy = shard.index % sharers_of(span, shard.of) != 0};
}

std::vector<Range> ranges_of(const ParameterSpec& whole, const ShardNumber& shard) {
  const Cut& cut = whole.cut;
  if (cut.rule == CutRule::Vocabulary) {
    const std::int64_t entries = whole.shape[cut.dim];
    require(entries >= shard.of, "model.vocab ", entries, " has less than one entry for ", shard.of,
            " tensor shards; use fewer");
    const std::int64_t first = vocabulary_border(entries, shard.index, shard.of);
    return {{first, vocabulary_border(entries, shard.index + 1, shard.of) - first}};
  }
  std::vector<Range> ranges;
  std::int64_t begin = 0;
  for (const CutSpan& span : cut.spans) {
    ranges.push_back(range_of(span, begin, shard));
    begin += span.units * span.width;
  }
  CLEAVE_CHECK(begin == whole.shape[cut.dim], whole.name, " is cut in ", begin, " of ",
               whole.shape[cut.dim], " elements");
  return ranges;
}

/// A range in the words of checkpoints, from element `first` of what the shard has.
void add_pieces(const ParameterSpec& whole, const Range& range, std::int64_t first,
                std::vector<Piece>& pieces) {
  const int dim = whole.cut.dim;
  for (const Piece& piece : whole.pieces) {
    if (piece.dim != dim) {
      CLEAVE_CHECK(whole.pieces.size() == 1, whole.name, " is fused along dim ", piece.dim,
                   " and cannot be cut along dim ", dim);
      pieces.push_back({.name = piece.name,
                        .first = first,
                        .extent = range.extent,
                        .dim = dim,
                        .start = range.start,
                        .whole = whole.shape[dim],
                        .copy = range.copy});
      return;
    }
    const std::int64_t begin = std::max(range.start, piece.first);
    const std::int64_t end = std::min(range.start + range.extent, piece.first + piece.extent);
    if (begin >= end) continue;
    pieces.push_back({.name = piece.name,
                      .first = first + begin - range.start,
                      .extent = end - begin,
                      .dim = dim,
                      .start = piece.start + begin - piece.first,
                      .whole = piece.whole,
                      .copy = range.copy});
  }
}

}  // namespace

std::int64_t vocabulary_border(std::int64_t vocabulary, int shard, int shards) {
  return vocabulary * shard / shards;
}

std::string shard_name(const std::string& whole, int local) {
  return whole + "#" + std::to_string(local);
}

void mark_copies(ParameterSpec& parameter, const TensorShare& share) {
  for (Piece& piece : parameter.pieces) piece.copy = share.rank > 0;
}

void mark_copies(LayerSpec& layer, const TensorShare& share) {
  for (ParameterSpec& parameter : layer.parameters) mark_copies(parameter, share);
}

ParameterSpec cut_parameter(const ParameterSpec& whole, const ShardNumber& shard) {
  ParameterSpec part = whole;
  part.name = shard_name(whole.name, shard.local);
  if (!whole.tied_to.empty()) part.tied_to = shard_name(whole.tied_to, shard.local);
  part.pieces.clear();
  std::int64_t first = 0;
  for (const Range& range : ranges_of(whole, shard)) {
    add_pieces(whole, range, first, part.pieces);
    first += range.extent;
  }
  part.shape = whole.shape.with(whole.cut.dim, first);
  return part;
}

SharedColumns shared_columns(const ParameterSpec& whole, const ShardNumber& shard) {
  SharedColumns shared;
  std::int64_t first = 0;
  for (const CutSpan& span : whole.cut.spans) {
    const std::int64_t columns = range_of(span, 0, shard).extent;
    const int sharers = sharers_of(span, shard.of);
    if (sharers > 1) {
      CLEAVE_CHECK(shared.columns == 0 ||
                       (shared.shards == sharers && shared.first + shared.columns == first),
                   whole.name, " shares columns that do not follow each other");
      if (shared.columns == 0) shared = {.first = first, .shards = sharers};
      shared.columns += columns;
    }
    first += columns;
  }
  return shared;
}

}  // namespace cleave::shard
