#include "cleave/engine/stage/piece_of.h"

#include <algorithm>

namespace cleave::engine {

TensorState piece_of(const ParameterState& parameter, const Piece& piece, Memory& memory,
                     const Arena& outside) {
  const Shape& shape = parameter.spec->shape;
  const std::int64_t row = shape.rank() > 1 ? shape.elements() / shape[0] : 1;
  const std::int64_t end = parameter.first + parameter.elements();
  TensorState tensor{.name = piece.name,
                     .trainable = parameter.spec->trainable,
                     .held = parameter.spec->held,
                     .row = parameter.spec->held == Held::Plain ? 0 : row,
                     .dim = piece.dim,
                     .start = piece.start,
                     .memory = &memory,
                     .outside = &outside};
  const auto set = [&](auto&& cut) {
    const auto part = [&](View share) { return share ? cut(share) : View(); };
    tensor.value = part(parameter.value);
    tensor.master = part(parameter.master_at_rest);
    tensor.gradient = part(parameter.gradient);
    for (const SlotState& slot : parameter.slots) {
      const View at_rest = part(slot.at_rest);
      tensor.slots.push_back({slot.name, at_rest, at_rest});
    }
  };
  if (parameter.spec->held == Held::Packed) {
    tensor.whole = piece.whole;
    tensor.value = parameter.value.slice(0, piece.first, piece.extent);
    return tensor;
  }
  if (piece.dim != 0) {
    tensor.whole = piece.whole;
    tensor.first_row = parameter.first / row;
    set([&](View share) {
      return share.reshaped({share.elements() / row, row})
          .slice(piece.dim, piece.first, piece.extent);
    });
    return tensor;
  }
  const std::int64_t begin = std::max(piece.first * row, parameter.first);
  const std::int64_t count =
      std::max<std::int64_t>(0, std::min((piece.first + piece.extent) * row, end) - begin);
  // In rows where there are no others, else in elements.
  const std::int64_t skipped = begin - piece.first * row;
  const std::int64_t unit = skipped % row == 0 && count % row == 0 ? row : 1;
  tensor.start = (piece.start * row + skipped) / unit;
  tensor.whole = piece.whole * row / unit;
  set([&](View share) {
    const View part = share.slice(0, count == 0 ? 0 : begin - parameter.first, count);
    return unit == 1 ? part : part.reshaped(shape.with(0, count / row));
  });
  return tensor;
}

}  // namespace cleave::engine
