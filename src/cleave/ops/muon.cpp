#include "cleave/ops/muon.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "cleave/ops/elementwise.h"
#include "cleave/ops/matmul.h"
#include "cleave/ops/reduce.h"
#include "cleave/ops/scratch_claim.h"

namespace cleave::ops {
namespace {

// x -> a x + (b g + c g²) x with g = x xᵀ, chosen by Jordan et al. for steepness at 0.
constexpr float kA = 3.4445f;
constexpr float kB = -4.7750f;
constexpr float kC = 2.0315f;
constexpr int kIterations = 5;
constexpr double kSmallestNorm = 1e-7;

/// Room for two matrices of the shape, two of their smaller side squared, and the sums of blocks.
struct MuonRoom {
  std::int64_t matrix = 0;  ///< bytes
  std::int64_t gram = 0;
  std::int64_t blocks = 0;

  MuonRoom(std::int64_t rows, std::int64_t columns) {
    const std::int64_t side = std::min(rows, columns);
    matrix = aligned(rows * columns * size_of(DType::F32));
    gram = aligned(side * side * size_of(DType::F32));
    blocks = aligned((rows * columns + kSquaresBlock - 1) / kSquaresBlock *
                     static_cast<std::int64_t>(sizeof(double)));
  }
  std::int64_t bytes() const { return 2 * matrix + 2 * gram + blocks; }
};

double frobenius_norm(Compute& compute, ConstView x, std::span<double> blocks) {
  sum_of_squares(compute, x, blocks);
  double sum = 0;
  for (const double block : blocks) sum += block;
  return std::sqrt(sum);
}

/// Makes the singular values of `x` nearly 1. Returns where the result is: `x` or `other`.
View orthogonalise(Compute& compute, View x, View other, View gram, View polynomial) {
  const bool tall = x.size(0) > x.size(1);
  for (int i = 0; i < kIterations; ++i) {
    const ConstView now = x;
    matmul(compute, tall ? now.transposed() : now, tall ? now : now.transposed(), gram);
    matmul(compute, gram, gram, polynomial);
    weighted_sum(compute, {polynomial, kC}, {gram, kB}, polynomial);
    // The polynomial is symmetric to the bit, so a tall matrix needs no transposing.
    matmul(compute, tall ? now : ConstView(polynomial), tall ? ConstView(polynomial) : now, other);
    weighted_sum(compute, {x, kA}, {other, 1}, other);
    std::swap(x, other);
  }
  return x;
}

}  // namespace

std::int64_t muon_scratch_bytes(Compute& compute, std::int64_t rows, std::int64_t columns) {
  const std::int64_t side = std::min(rows, columns);
  const bool tall = rows > columns;
  const MatmulSpec gram{.m = side,
                        .n = side,
                        .k = std::max(rows, columns),
                        .in = DType::F32,
                        .out = DType::F32,
                        .a = tall ? Transpose::Yes : Transpose::No,
                        .b = tall ? Transpose::No : Transpose::Yes,
                        .a_stride = columns,
                        .b_stride = columns,
                        .out_stride = side};
  const MatmulSpec square{.m = side,
                          .n = side,
                          .k = side,
                          .in = DType::F32,
                          .out = DType::F32,
                          .a_stride = side,
                          .b_stride = side,
                          .out_stride = side};
  const MatmulSpec product{.m = rows,
                           .n = columns,
                           .k = side,
                           .in = DType::F32,
                           .out = DType::F32,
                           .a_stride = tall ? columns : side,
                           .b_stride = tall ? side : columns,
                           .out_stride = columns};
  std::int64_t most = 0;
  for (const MatmulSpec& spec : {gram, square, product})
    most = std::max(most, matmul_scratch_bytes(compute, spec));
  return MuonRoom(rows, columns).bytes() + aligned(most);
}

void muon(Compute& compute, const MuonArgs& args, const MuonHyper& hyper) {
  const Shape& shape = args.master.shape();
  CLEAVE_CHECK(shape.rank() == 2, "muon on ", to_string(shape));
  const std::int64_t rows = shape[0];
  const std::int64_t columns = shape[1];
  const std::int64_t side = std::min(rows, columns);
  const MuonRoom room(rows, columns);
  const ScratchClaim claim(compute, room.bytes());
  std::byte* next = claim.data();
  const auto take = [&](std::int64_t bytes) { return std::exchange(next, next + bytes); };
  const View x(take(room.matrix), DType::F32, shape);
  const View other(take(room.matrix), DType::F32, shape);
  const View gram(take(room.gram), DType::F32, {side, side});
  const View polynomial(take(room.gram), DType::F32, {side, side});
  const auto count = static_cast<std::size_t>((rows * columns + kSquaresBlock - 1) / kSquaresBlock);
  // The host adds the blocks up: an accelerator's scratch is not its to read.
  std::vector<double> on_host(compute.accelerator() == nullptr ? 0 : count);
  const std::span blocks = on_host.empty()
                               ? std::span(reinterpret_cast<double*>(take(room.blocks)), count)
                               : std::span(on_host);

  const auto keep = static_cast<float>(hyper.momentum);
  const auto fresh = static_cast<float>((1 - hyper.momentum) * hyper.gradient_scale);
  weighted_sum(compute, {args.momentum, keep}, {args.gradient, fresh}, args.momentum);
  weighted_sum(compute, {args.momentum, keep}, {args.gradient, fresh}, x);
  const double norm = std::max(frobenius_norm(compute, x, blocks), kSmallestNorm);
  scale(compute, x, static_cast<float>(1 / norm), x);
  const View update = orthogonalise(compute, x, other, gram, polynomial);
  const double size = 0.2 * std::sqrt(static_cast<double>(std::max(rows, columns)));
  weighted_sum(compute, {args.master, static_cast<float>(1 - hyper.lr * hyper.weight_decay)},
               {update, static_cast<float>(-hyper.lr * size)}, args.master);
  if (args.copy) copy(compute, args.master, args.copy);
}

}  // namespace cleave::ops
