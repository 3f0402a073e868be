#include "cleave/ops/device/reduction.h"

#include <cmath>

#include "cleave/ops/device/run.h"
#include "cleave/spec/kernel_scratch.h"
#include "cleave/tensor/bf16.h"

namespace cleave::ops::device {

void norm(Accelerator& device, const LayernormArgs& args, NormWeight form) {
  run_groups(device, "norm", args.x.dtype(), args.x.size(0), args.x.size(1),
             std::int64_t{args.bias ? 1 : 0}, std::int64_t{form == NormWeight::OnePlus}, args.x,
             stride_of(args.x), args.weight, args.bias, args.eps, args.y, stride_of(args.y),
             args.mean, args.rstd);
}

void norm_backward(Accelerator& device, const LayernormBackwardArgs& args, NormWeight form) {
  const std::int64_t tokens = args.x.size(0);
  const std::int64_t hidden = args.x.size(1);
  const std::int64_t centred = args.dbias ? 1 : 0;
  // First what reads dy, because dx may take its place.
  run_items(device, "norm_weight_gradient", args.x.dtype(), hidden, hidden, tokens,
            token_slices(tokens).tokens, centred, args.dy, stride_of(args.dy), args.x,
            stride_of(args.x), args.mean, args.rstd, args.dweight, args.dbias);
  run_groups(device, "norm_input_gradient", args.x.dtype(), tokens, hidden, centred,
             std::int64_t{form == NormWeight::OnePlus}, args.dy, stride_of(args.dy), args.x,
             stride_of(args.x), args.weight, args.mean, args.rstd, args.add, stride_of(args.add),
             args.dx, stride_of(args.dx));
}

void add_column_sums(Accelerator& device, ConstView a, View out) {
  run_items(device, "column_sums", a.dtype(), a.size(1), a.size(1), a.size(0), a, stride_of(a),
            out);
}

void sum_of_squares(Accelerator& device, ConstView a, std::span<double> blocks,
                    std::span<std::byte> scratch) {
  constexpr int kSquareLanes = 32;
  const std::size_t at_once = scratch.size() / sizeof(double);
  CLEAVE_CHECK(at_once > 0 || blocks.empty(), "sum of squares has no scratch");
  for (std::size_t first = 0; first < blocks.size(); first += at_once) {
    const std::span<double> some = blocks.subspan(first, std::min(at_once, blocks.size() - first));
    const std::array<KernelArgument, 4> arguments = {
        a.elements(), a, static_cast<std::int64_t>(first), scratch.data()};
    device.launch({"squares", DType::F32, std::ssize(some), kSquareLanes, arguments});
    device.memory().copy_out(scratch.data(), std::as_writable_bytes(some));
  }
}

/// Only the search for the first bad layer asks, after a run has gone wrong: the host looks.
bool all_finite(Accelerator& device, ConstView a) {
  const std::int64_t columns = a.rank() == 0 ? 1 : a.size(a.rank() - 1);
  const std::int64_t rows = columns == 0 ? 0 : a.elements() / columns;
  bool finite = true;
  for (std::int64_t row = 0; row < rows && finite; ++row) {
    std::int64_t at = 0;
    for (std::int64_t dim = a.rank() - 2, rest = row; dim >= 0; --dim) {
      at += rest % a.size(static_cast<int>(dim)) * a.stride(static_cast<int>(dim));
      rest /= a.size(static_cast<int>(dim));
    }
    const ConstView line(a.bytes() + at * size_of(a.dtype()), a.dtype(), {columns});
    read_on_host(device.memory(), line, [&](ConstView host) {
      for (std::int64_t i = 0; i < columns; ++i) {
        const float value =
            host.dtype() == DType::F32 ? host.as<float>()[i] : to_float(host.as<BFloat16>()[i]);
        finite = finite && std::isfinite(value);
      }
    });
  }
  return finite;
}

void embedding(Accelerator& device, const EmbeddingArgs& args) {
  run_items(device, "embedding", args.table.dtype(), args.y.elements(), args.y.elements(),
            args.y.size(1), args.ids, args.rows.first, args.rows.scale, args.table,
            args.table.size(0), stride_of(args.table), args.positions, stride_of(args.positions),
            args.sequence, args.first_position, args.y, stride_of(args.y));
}

void embedding_backward(Accelerator& device, ConstView ids, ConstView dy, View dtable,
                        const VocabRows& rows) {
  run_items(device, "embedding_gradient", dy.dtype(), dy.size(1), dy.size(1), dy.size(0), ids,
            rows.first, rows.still, rows.scale, dtable.size(0), dy, stride_of(dy), dtable,
            stride_of(dtable));
}

void position_backward(Accelerator& device, ConstView dy, std::int64_t sequence, View dpositions) {
  const std::int64_t count = std::min(sequence, dy.size(0)) * dy.size(1);
  run_items(device, "position_gradient", dy.dtype(), count, count, dy.size(1), dy.size(0), sequence,
            dy, stride_of(dy), dpositions, stride_of(dpositions));
}

void cross_entropy(Accelerator& device, ConstView logits, ConstView targets, View losses,
                   View lse) {
  run_groups(device, "cross_entropy", logits.dtype(), logits.size(0), logits.size(1), logits,
             stride_of(logits), targets, losses, lse);
}

void hits(Accelerator& device, ConstView logits, ConstView targets, View hits) {
  run_items(device, "hits", logits.dtype(), logits.size(0), logits.size(0), logits.size(1), logits,
            stride_of(logits), targets, hits);
}

void cross_entropy_backward(Accelerator& device, VocabBlock block, ConstView targets, ConstView lse,
                            float scale) {
  const View logits = block.logits;
  run_items(device, "cross_entropy_gradient", logits.dtype(), logits.elements(), logits.elements(),
            logits.size(1), logits, stride_of(logits), block.first, targets, lse, scale);
}

void cross_entropy_partial(Accelerator& device, VocabBlock block, ConstView targets,
                           const SoftmaxState& state, Write write) {
  const View logits = block.logits;
  run_groups(device, "cross_entropy_partial", logits.dtype(), logits.size(0), logits.size(1),
             logits, stride_of(logits), block.first, targets, state.max, state.sum, state.target,
             std::int64_t{write == Write::Overwrite});
}

void cross_entropy_merge(Accelerator& device, const SoftmaxState& other, const SoftmaxState& into) {
  const std::int64_t tokens = into.max.size(0);
  run_items(device, "cross_entropy_merge", DType::F32, tokens, tokens, other.max, other.sum,
            other.target, into.max, into.sum, into.target);
}

void cross_entropy_finish(Accelerator& device, const SoftmaxState& state, ConstView targets,
                          View losses, View lse) {
  const std::int64_t tokens = targets.size(0);
  run_items(device, "cross_entropy_finish", DType::F32, tokens, tokens, state.max, state.sum,
            state.target, targets, losses, lse);
}

}  // namespace cleave::ops::device
