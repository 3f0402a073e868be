#include "cleave/runtime/gradient_norm.h"

#include <algorithm>
#include <cmath>

#include "cleave/base/check.h"
#include "cleave/ops/reduce.h"

namespace cleave::runtime {
namespace {

std::int64_t blocks_of(std::int64_t elements) {
  return (elements + ops::kSquaresBlock - 1) / ops::kSquaresBlock;
}

/// Dense pieces as a single row.
View as_rows(View gradient) {
  return gradient.dense() ? gradient.reshaped({1, gradient.elements()}) : gradient;
}

}  // namespace

std::vector<OwnedPiece> owned_pieces(std::span<const SegmentSpec> segments) {
  std::vector<OwnedPiece> pieces;
  for (const SegmentSpec& segment : segments) {
    for (const LayerSpec& layer : segment.layers) {
      for (const ParameterSpec& parameter : layer.parameters) {
        if (!parameter.tied_to.empty()) continue;
        for (const Piece& piece : parameter.pieces) {
          if (!piece.copy) pieces.push_back({piece.name, piece.start});
        }
      }
    }
  }
  return pieces;
}

std::vector<std::string> tensor_names(std::span<const SegmentSpec> segments) {
  std::vector<std::string> names;
  for (OwnedPiece& piece : owned_pieces(segments)) names.push_back(std::move(piece.name));
  std::ranges::sort(names);
  return names;
}

GradientNorm::GradientNorm(std::span<const OwnedPiece> pieces, std::span<Stage* const> stages)
    : pieces_(std::ssize(pieces)) {
  std::int64_t most = 0;
  for (const Stage* stage : stages) {
    if (stage == nullptr) continue;
    for (const ParameterState& parameter : stage->parameters()) {
      if (!parameter.spec->tied_to.empty()) continue;
      for (const Piece& piece : parameter.spec->pieces) {
        if (piece.copy) continue;
        const OwnedPiece key{piece.name, piece.start};
        const auto found = std::ranges::lower_bound(pieces, key);
        CLEAVE_CHECK(found != pieces.end() && *found == key, piece.name, " is not in the model");
        const View rows = as_rows(parameter.gradient.slice(piece.dim, piece.first, piece.extent));
        owned_.push_back({rows, found - pieces.begin()});
        most = std::max(most, blocks_of(rows.size(1)));
      }
    }
  }
  blocks_.resize(static_cast<std::size_t>(most));
}

void GradientNorm::add_squares(ops::Compute& compute, std::span<double> squares) {
  for (const Owned& owned : owned_) {
    const std::span<double> blocks =
        std::span(blocks_).first(static_cast<std::size_t>(blocks_of(owned.gradient.size(1))));
    double sum = 0;
    for (std::int64_t row = 0; row < owned.gradient.size(0); ++row) {
      ops::sum_of_squares(compute, owned.gradient.slice(0, row, 1), blocks);
      for (double block : blocks) sum += block;
    }
    squares[owned.index] = sum;
  }
}

double GradientNorm::norm(std::span<const double> squares) {
  double sum = 0;
  for (double square : squares) sum += square;
  return std::sqrt(sum);
}

}  // namespace cleave::runtime
