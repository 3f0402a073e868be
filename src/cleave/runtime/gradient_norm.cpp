#include "cleave/runtime/gradient_norm.h"

#include <algorithm>
#include <cmath>

#include "cleave/base/check.h"
#include "cleave/ops/reduce.h"

namespace cleave::runtime {

std::vector<std::string> tensor_names(std::span<const SegmentSpec> segments) {
  std::vector<std::string> names;
  for (const SegmentSpec& segment : segments) {
    for (const LayerSpec& layer : segment.layers) {
      for (const ParameterSpec& parameter : layer.parameters) {
        if (!parameter.tied_to.empty()) continue;
        for (const Piece& piece : parameter.pieces) names.push_back(piece.name);
      }
    }
  }
  std::ranges::sort(names);
  return names;
}

GradientNorm::GradientNorm(std::span<const std::string> names, std::span<Stage* const> stages)
    : tensors_(static_cast<std::int64_t>(names.size())) {
  std::int64_t most = 0;
  for (const Stage* stage : stages) {
    if (stage == nullptr) continue;
    for (const ParameterState& parameter : stage->parameters()) {
      if (!parameter.spec->tied_to.empty()) continue;
      for (const Piece& piece : parameter.spec->pieces) {
        const auto found = std::ranges::lower_bound(names, piece.name);
        CLEAVE_CHECK(found != names.end() && *found == piece.name, piece.name,
                     " is not in the model");
        const View gradient = parameter.gradient.slice(0, piece.first, piece.rows);
        owned_.push_back({gradient, found - names.begin()});
        most = std::max(most, gradient.elements());
      }
    }
  }
  blocks_.resize((most + ops::kSquaresBlock - 1) / ops::kSquaresBlock);
}

void GradientNorm::add_squares(ops::Compute& compute, std::span<double> squares) {
  for (const Tensor& tensor : owned_) {
    const std::int64_t count =
        (tensor.gradient.elements() + ops::kSquaresBlock - 1) / ops::kSquaresBlock;
    const std::span<double> blocks(blocks_.data(), static_cast<std::size_t>(count));
    ops::sum_of_squares(compute, tensor.gradient, blocks);
    double sum = 0;
    for (double block : blocks) sum += block;
    squares[tensor.index] = sum;
  }
}

double GradientNorm::norm(std::span<const double> squares) {
  double sum = 0;
  for (double square : squares) sum += square;
  return std::sqrt(sum);
}

}  // namespace cleave::runtime
