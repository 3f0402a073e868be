#include "cleave/engine/stage/gradient_norm.h"

#include <algorithm>
#include <cmath>

#include "cleave/base/check.h"
#include "cleave/ops/reduce.h"

namespace cleave::engine {
namespace {

std::int64_t blocks_of(std::int64_t elements) {
  return (elements + ops::kSquaresBlock - 1) / ops::kSquaresBlock;
}

bool is_slice_of_rows(const ParameterSpec& parameter, const Piece& piece) {
  return piece.dim != 0 && piece.extent < parameter.shape[piece.dim];
}

std::int64_t blocks_of(const ParameterSpec& parameter, const Piece& piece) {
  const Shape& shape = parameter.shape;
  if (is_slice_of_rows(parameter, piece)) return shape[0] * blocks_of(piece.extent);
  return blocks_of(piece.dim == 0 ? shape.elements() / shape[0] * piece.extent : shape.elements());
}

}  // namespace

namespace {

/// The wanted parameters without copies; a tied weight goes under the name of its owner.
template <class Wanted>
std::vector<OwnedPiece> pieces_of(std::span<const SegmentSpec> segments, const Wanted& wanted) {
  std::vector<OwnedPiece> pieces;
  for (const SegmentSpec& segment : segments) {
    for (const LayerSpec& layer : segment.layers) {
      for (const ParameterSpec& parameter : layer.parameters) {
        if (!parameter.tied_to.empty() || !wanted(parameter)) continue;
        for (const Piece& piece : parameter.pieces) {
          if (!piece.copy) pieces.push_back({piece.name, piece.start});
        }
      }
    }
  }
  return pieces;
}

}  // namespace

std::vector<OwnedPiece> owned_pieces(std::span<const SegmentSpec> segments) {
  return pieces_of(segments, [](const ParameterSpec& parameter) { return parameter.trainable; });
}

std::vector<std::string> tensor_names(std::span<const SegmentSpec> segments) {
  std::vector<std::string> names;
  for (OwnedPiece& piece : pieces_of(segments, [](const ParameterSpec&) { return true; }))
    names.push_back(std::move(piece.name));
  std::ranges::sort(names);
  return names;
}

GradientNorm::GradientNorm(std::span<const OwnedPiece> pieces, std::span<Stage* const> stages)
    : pieces_(std::ssize(pieces)) {
  std::int64_t blocks = 0;
  for (const Stage* stage : stages) {
    first_block_.push_back(blocks);
    if (stage == nullptr || stage->parameters().layout().options.sums == 0) continue;
    for (const ParameterState& parameter : stage->parameters().all()) {
      if (!parameter.spec->tied_to.empty() || !parameter.spec->trainable) continue;
      for (const Piece& piece : parameter.spec->pieces) {
        if (piece.copy) continue;
        const OwnedPiece key{piece.name, piece.start};
        const auto found = std::ranges::lower_bound(pieces, key);
        CLEAVE_CHECK(found != pieces.end() && *found == key, piece.name, " is not in the model");
        owned_.push_back(owned_part(parameter, piece));
        owned_.back().index = found - pieces.begin();
        owned_.back().first_block = blocks;
        blocks += owned_.back().blocks;
      }
    }
  }
  first_block_.push_back(blocks);
  blocks_.resize(static_cast<std::size_t>(blocks));
}

std::int64_t GradientNorm::block_count(const plan::StateLayout& layout) {
  std::int64_t blocks = 0;
  for (const plan::SegmentState& segment : layout.segments) {
    for (const plan::ParameterPlace& place : segment.parameters) {
      if (!place.spec->tied_to.empty() || !place.spec->trainable) continue;
      for (const Piece& piece : place.spec->pieces)
        if (!piece.copy) blocks += blocks_of(*place.spec, piece);
    }
  }
  return blocks;
}

/// Rows of their own where the piece is a slice of rows; else one row of the elements in order.
GradientNorm::Owned GradientNorm::owned_part(const ParameterState& share, const Piece& piece) {
  const Shape& shape = share.spec->shape;
  const std::int64_t row = shape.rank() > 1 ? shape.elements() / shape[0] : 1;
  const std::int64_t end = share.first + share.elements();
  if (is_slice_of_rows(*share.spec, piece)) {
    const View rows = share.gradient.reshaped({share.elements() / row, row});
    return {.gradient = rows.slice(1, piece.first, piece.extent),
            .own_block = share.first / row * blocks_of(piece.extent),
            .blocks = blocks_of(*share.spec, piece)};
  }
  const std::int64_t first = piece.dim == 0 ? piece.first * row : 0;
  const std::int64_t count = piece.dim == 0 ? piece.extent * row : shape.elements();
  const std::int64_t begin = std::clamp(first, share.first, end);
  const std::int64_t behind = std::clamp(first + count, share.first, end);
  return {.gradient = share.gradient.slice(0, begin - share.first, behind - begin)
                          .reshaped({1, behind - begin}),
          .own_block = (begin - first) / ops::kSquaresBlock,
          .blocks = blocks_of(*share.spec, piece)};
}

void GradientNorm::square(ops::Compute& compute) {
  std::ranges::fill(blocks_, 0.0);
  for (const Owned& owned : owned_) {
    const std::int64_t per_row = blocks_of(owned.gradient.size(1));
    double* next = blocks_.data() + owned.first_block + owned.own_block;
    for (std::int64_t row = 0; row < owned.gradient.size(0) && per_row > 0; ++row) {
      ops::sum_of_squares(compute, owned.gradient.slice(0, row, 1),
                          {next, static_cast<std::size_t>(per_row)});
      next += per_row;
    }
  }
}

std::span<double> GradientNorm::blocks(int stage) {
  return std::span(blocks_).subspan(
      static_cast<std::size_t>(first_block_[stage]),
      static_cast<std::size_t>(first_block_[stage + 1] - first_block_[stage]));
}

void GradientNorm::add_up(std::span<double> squares) const {
  for (const Owned& owned : owned_) {
    double sum = 0;
    for (std::int64_t block = 0; block < owned.blocks; ++block)
      sum += blocks_[static_cast<std::size_t>(owned.first_block + block)];
    squares[owned.index] = sum;
  }
}

double GradientNorm::norm(std::span<const double> squares) {
  double sum = 0;
  for (double square : squares) sum += square;
  return std::sqrt(sum);
}

}  // namespace cleave::engine
