#include "cleave/engine/stage/piece_of.h"

#include <algorithm>

namespace cleave::engine {
namespace {

/// Of every tensor that a parameter has here, what cut() takes of it.
template <class Cut>
void set_parts(const ParameterState& parameter, const Cut& cut, TensorState& tensor) {
  const auto part = [&](View share) { return share ? cut(share) : View(); };
  tensor.value = part(parameter.value);
  tensor.master = part(parameter.master_at_rest);
  tensor.gradient = part(parameter.gradient);
  for (const SlotState& slot : parameter.slots) {
    const View at_rest = part(slot.at_rest);
    tensor.slots.push_back({slot.name, at_rest, at_rest});
  }
}

/// Some columns of every row.
void take_columns(const ParameterState& parameter, const Piece& piece, std::int64_t row,
                  TensorState& tensor) {
  tensor.whole = piece.whole;
  tensor.first_row = parameter.first / row;
  set_parts(
      parameter,
      [&](View share) {
        return share.reshaped({share.elements() / row, row})
            .slice(piece.dim, piece.first, piece.extent);
      },
      tensor);
}

/// Some rows, as far as they are in this device's share of the elements.
void take_rows(const ParameterState& parameter, const Piece& piece, std::int64_t row,
               TensorState& tensor) {
  const std::int64_t end = parameter.first + parameter.elements();
  const std::int64_t begin = std::max(piece.first * row, parameter.first);
  const std::int64_t count =
      std::max<std::int64_t>(0, std::min((piece.first + piece.extent) * row, end) - begin);
  // In rows where there are no others, else in elements.
  const std::int64_t skipped = begin - piece.first * row;
  const std::int64_t unit = skipped % row == 0 && count % row == 0 ? row : 1;
  tensor.start = (piece.start * row + skipped) / unit;
  tensor.whole = piece.whole * row / unit;
  set_parts(
      parameter,
      [&](View share) {
        const View part = share.slice(0, count == 0 ? 0 : begin - parameter.first, count);
        return unit == 1 ? part : part.reshaped(parameter.spec->shape.with(0, count / row));
      },
      tensor);
}

}  // namespace

TensorState piece_of(const ParameterState& parameter, const Piece& piece, Memory& memory,
                     const Arena& outside) {
  const Shape& shape = parameter.spec->shape;
  const std::int64_t row = shape.rank() > 1 ? shape.elements() / shape[0] : 1;
  TensorState tensor{.name = piece.name,
                     .trainable = parameter.spec->trainable,
                     .held = parameter.spec->held,
                     .row = parameter.spec->held == Held::Plain ? 0 : row,
                     .dim = piece.dim,
                     .start = piece.start,
                     .memory = &memory,
                     .outside = &outside};
  if (parameter.spec->held == Held::Packed) {
    tensor.whole = piece.whole;
    tensor.value = parameter.value.slice(0, piece.first, piece.extent);
  } else if (piece.dim != 0) {
    take_columns(parameter, piece, row, tensor);
  } else {
    take_rows(parameter, piece, row, tensor);
  }
  return tensor;
}

}  // namespace cleave::engine
