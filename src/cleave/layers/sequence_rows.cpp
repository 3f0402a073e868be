#include "cleave/layers/sequence_rows.h"

#include "cleave/ops/elementwise.h"
#include "cleave/ops/embedding.h"
#include "cleave/spec/image_layers.h"

namespace cleave {
namespace {

/// Rows [first, first + count) of every sequence, [sequences, count, features].
template <class Byte>
BasicView<Byte> rows_of_each(const BasicView<Byte>& rows, std::int64_t sequence, std::int64_t first,
                             std::int64_t count) {
  const std::int64_t features = rows.size(1);
  return BasicView<Byte>(rows.bytes() + first * features * size_of(rows.dtype()), rows.dtype(),
                         {rows.size(0) / sequence, count, features},
                         {sequence * features, features, 1, 0});
}

/// Rows [first, first + count) of a table, once more for every sequence.
ConstView for_each_sequence(ConstView table, std::int64_t sequences, std::int64_t first,
                            std::int64_t count) {
  const std::int64_t features = table.size(1);
  return ConstView(table.bytes() + first * features * size_of(table.dtype()), table.dtype(),
                   {sequences, count, features}, {0, features, 1, 0});
}

}  // namespace

void ClassToken::forward(ops::Compute& compute, const LayerCall& call) {
  const std::int64_t sequence = spec().as<SequenceAttributes>().sequence;
  const std::int64_t sequences = call.y.size(0) / sequence;
  const ConstView positions = parameter(1).value;
  ops::add(compute, for_each_sequence(parameter(0).value, sequences, 0, 1),
           for_each_sequence(positions, sequences, 0, 1), rows_of_each(call.y, sequence, 0, 1));
  ops::add(compute, rows_of_each(ConstView(call.x), sequence - 1, 0, sequence - 1),
           for_each_sequence(positions, sequences, 1, sequence - 1),
           rows_of_each(call.y, sequence, 1, sequence - 1));
}

void ClassToken::backward_input(ops::Compute& compute, const LayerCall& call) {
  if (!call.dx) return;
  const std::int64_t sequence = spec().as<SequenceAttributes>().sequence;
  ops::copy(compute, rows_of_each(call.dy, sequence, 1, sequence - 1),
            rows_of_each(call.dx, sequence - 1, 0, sequence - 1));
}

void ClassToken::backward_weight(ops::Compute& compute, const LayerCall& call) {
  const std::int64_t sequence = spec().as<SequenceAttributes>().sequence;
  const auto begin = [&](View gradient) {
    if (call.gradient == Write::Overwrite) ops::fill(compute, 0, gradient);
    return gradient;
  };
  const ConstView dy = call.dy;
  const std::int64_t features = dy.size(1);
  if (is_trained(0)) {
    const ConstView first(dy.bytes(), dy.dtype(), {dy.size(0) / sequence, features},
                          {sequence * features, 1, 0, 0});
    ops::position_backward(compute, first, 1, begin(gradient(0, call)));
  }
  if (is_trained(1)) ops::position_backward(compute, dy, sequence, begin(gradient(1, call)));
}

void Positions::forward(ops::Compute& compute, const LayerCall& call) {
  const std::int64_t sequence = spec().as<SequenceAttributes>().sequence;
  ops::add(compute, rows_of_each(ConstView(call.x), sequence, 0, sequence),
           for_each_sequence(parameter(0).value, call.x.size(0) / sequence, 0, sequence),
           rows_of_each(call.y, sequence, 0, sequence));
}

void Positions::backward_input(ops::Compute& compute, const LayerCall& call) {
  if (call.dx) ops::copy(compute, call.dy, call.dx);
}

void Positions::backward_weight(ops::Compute& compute, const LayerCall& call) {
  const View sum = gradient(0, call);
  if (call.gradient == Write::Overwrite) ops::fill(compute, 0, sum);
  ops::position_backward(compute, call.dy, spec().as<SequenceAttributes>().sequence, sum);
}

void FirstRow::forward(ops::Compute& compute, const LayerCall& call) {
  const std::int64_t sequence = spec().as<SequenceAttributes>().sequence;
  ops::copy(compute, rows_of_each(ConstView(call.x), sequence, 0, 1),
            rows_of_each(call.y, 1, 0, 1));
}

void FirstRow::backward_input(ops::Compute& compute, const LayerCall& call) {
  const std::int64_t sequence = spec().as<SequenceAttributes>().sequence;
  ops::fill(compute, 0, call.dx);
  ops::copy(compute, rows_of_each(call.dy, 1, 0, 1), rows_of_each(call.dx, sequence, 0, 1));
}

void LastRow::forward(ops::Compute& compute, const LayerCall& call) {
  const std::int64_t sequence = spec().as<SequenceAttributes>().sequence;
  ops::copy(compute, rows_of_each(ConstView(call.x), sequence, sequence - 1, 1),
            rows_of_each(call.y, 1, 0, 1));
}

void LastRow::backward_input(ops::Compute& compute, const LayerCall& call) {
  const std::int64_t sequence = spec().as<SequenceAttributes>().sequence;
  ops::fill(compute, 0, call.dx);
  ops::copy(compute, rows_of_each(call.dy, 1, 0, 1),
            rows_of_each(call.dx, sequence, sequence - 1, 1));
}

void WithoutFirst::forward(ops::Compute& compute, const LayerCall& call) {
  const std::int64_t sequence = spec().as<SequenceAttributes>().sequence;
  ops::copy(compute, rows_of_each(ConstView(call.x), sequence, 1, sequence - 1),
            rows_of_each(call.y, sequence - 1, 0, sequence - 1));
}

void WithoutFirst::backward_input(ops::Compute& compute, const LayerCall& call) {
  const std::int64_t sequence = spec().as<SequenceAttributes>().sequence;
  ops::fill(compute, 0, rows_of_each(call.dx, sequence, 0, 1));
  ops::copy(compute, rows_of_each(call.dy, sequence - 1, 0, sequence - 1),
            rows_of_each(call.dx, sequence, 1, sequence - 1));
}

}  // namespace cleave
