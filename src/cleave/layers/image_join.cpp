#include "cleave/layers/image_join.h"

#include "cleave/ops/elementwise.h"
#include "cleave/ops/placed_rows.h"
#include "cleave/spec/image_layers.h"

namespace cleave {
namespace {

// Indices into what the spec declares (spec/image_layers.cpp).
constexpr int kTokens = 0;  // of what the join reads
constexpr int kPlaces = 1;
constexpr int kRows = 0;  // of what is added; its places follow, as above

ops::PlacedTokens placed(const LayerSpec& spec, const LayerCall& call) {
  return {.ids = call.reads[kTokens],
          .places = call.reads[kPlaces],
          .still = spec.as<EmbeddingAttributes>().still};
}

/// The rows of x and of y as spans that both have in one piece: of each row of squares, each row in
/// it, each square its part of that row.
///
///     x [bands, by, squares, by · features]      y [bands, squares, by, by · features]
struct Squares {
  Squares(const ShuffleAttributes& shuffle, std::int64_t rows, std::int64_t features)
      : shape{rows / (shuffle.side * shuffle.by), shuffle.by, shuffle.side / shuffle.by,
              shuffle.by * features} {}

  template <class Byte>
  BasicView<Byte> of_rows(const BasicView<Byte>& x) const {
    return BasicView<Byte>(x.bytes(), x.dtype(), shape);
  }
  template <class Byte>
  BasicView<Byte> of_squares(const BasicView<Byte>& y) const {
    return BasicView<Byte>(y.bytes(), y.dtype(), shape,
                           {shape[1] * shape[2] * shape[3], shape[3], shape[1] * shape[3], 1});
  }

  Shape shape;
};

}  // namespace

void PixelShuffle::forward(ops::Compute& compute, const LayerCall& call) {
  const Squares squares(spec().as<ShuffleAttributes>(), call.x.size(0), call.x.size(1));
  ops::copy(compute, squares.of_rows(ConstView(call.x)), squares.of_squares(call.y));
}

void PixelShuffle::backward_input(ops::Compute& compute, const LayerCall& call) {
  const Squares squares(spec().as<ShuffleAttributes>(), call.dx.size(0), call.dx.size(1));
  ops::copy(compute, squares.of_squares(call.dy), squares.of_rows(call.dx));
}

void ImageJoin::forward(ops::Compute& compute, const LayerCall& call) {
  ops::place_rows(compute, placed(spec(), call), call.x, parameter(0).value, call.y);
}

void ImageJoin::backward_input(ops::Compute& compute, const LayerCall& call) {
  if (call.dx) ops::place_rows_backward(compute, call.reads[kPlaces], call.dy, call.dx);
}

void ImageJoin::backward_weight(ops::Compute& compute, const LayerCall& call) {
  const View sum = gradient(0, call);
  if (call.gradient == Write::Overwrite) ops::fill(compute, 0, sum);
  ops::place_table_backward(compute, placed(spec(), call), spec().x.shape[0], call.dy, sum);
}

void KeptRows::forward(ops::Compute& compute, const LayerCall& call) {
  ops::copy(compute, call.x, call.y);
}

void KeptRows::backward_input(ops::Compute& compute, const LayerCall& call) {
  if (call.dx) ops::copy(compute, call.dy, call.dx);
}

void AddRows::forward(ops::Compute& compute, const LayerCall& call) {
  ops::add_rows(compute, call.reads[kPlaces], call.x, call.reads[kRows], call.y);
}

void AddRows::backward_input(ops::Compute& compute, const LayerCall& call) {
  if (call.dx) ops::copy(compute, call.dy, call.dx);
  if (const View rows = call.read_gradients[kRows])
    ops::place_rows_backward(compute, call.reads[kPlaces], call.dy, rows);
}

}  // namespace cleave
