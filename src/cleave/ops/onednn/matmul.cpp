#include "cleave/ops/matmul.h"

#include "cleave/ops/onednn/kernels.h"
#include "cleave/ops/onednn/team.h"

namespace cleave::ops {
namespace {

struct Stored {
  Transpose transpose;
  std::int64_t stride;
  std::int64_t batch_stride;
};

/// How the matrices of `view` lie in memory. A dim of size one has any stride.
Stored stored(ConstView view, const char* name) {
  const int row = view.rank() - 2;
  const int col = view.rank() - 1;
  const std::int64_t batch_stride = view.rank() == 3 && view.size(0) > 1 ? view.stride(0) : 0;
  if (view.stride(col) == 1 || view.size(col) == 1) {
    return {Transpose::No, std::max(view.stride(row), view.size(col)), batch_stride};
  }
  CLEAVE_CHECK(view.stride(row) == 1 || view.size(row) == 1, name, " ", to_string(view.shape()),
               " has neither rows nor columns that are contiguous");
  return {Transpose::Yes, std::max(view.stride(col), view.size(row)), batch_stride};
}

void check_shapes(ConstView a, ConstView b, ConstView out, const MatmulOptions& options) {
  const int rank = out.rank();
  CLEAVE_CHECK((rank == 2 || rank == 3) && a.rank() == rank && b.rank() == rank &&
                   (rank == 2 || (a.size(0) == b.size(0) && a.size(0) == out.size(0))) &&
                   a.size(rank - 1) == b.size(rank - 2) && a.size(rank - 2) == out.size(rank - 2) &&
                   b.size(rank - 1) == out.size(rank - 1),
               "matmul ", to_string(a.shape()), " by ", to_string(b.shape()), " into ",
               to_string(out.shape()));
  CLEAVE_CHECK(a.dtype() == b.dtype() && a.dtype() != DType::I32 && out.dtype() != DType::I32,
               "matmul of ", to_string(a.dtype()), " by ", to_string(b.dtype()));
  if (!options.bias) return;
  CLEAVE_CHECK(options.bias.rank() == 1 && options.bias.dense() &&
                   options.bias.size(0) == out.size(rank - 1) &&
                   (options.bias.dtype() == DType::F32 || options.bias.dtype() == a.dtype()),
               "matmul bias ", to_string(options.bias.dtype()), to_string(options.bias.shape()));
}

}  // namespace

MatmulSpec describe(ConstView a, ConstView b, ConstView out, const MatmulOptions& options) {
  check_shapes(a, b, out, options);
  const Stored a_stored = stored(a, "a");
  const Stored b_stored = stored(b, "b");
  const Stored out_stored = stored(out, "out");
  CLEAVE_CHECK(out_stored.transpose == Transpose::No, "matmul into a transposed view");
  const int rank = out.rank();
  return {.m = out.size(rank - 2),
          .n = out.size(rank - 1),
          .k = a.size(rank - 1),
          .batch = rank == 3 ? out.size(0) : 1,
          .in = a.dtype(),
          .out = out.dtype(),
          .a = a_stored.transpose,
          .b = b_stored.transpose,
          .a_stride = a_stored.stride,
          .b_stride = b_stored.stride,
          .out_stride = out_stored.stride,
          .a_batch_stride = a_stored.batch_stride,
          .b_batch_stride = b_stored.batch_stride,
          .out_batch_stride = out_stored.batch_stride,
          .write = options.write,
          .bias = options.bias ? Bias::Add : Bias::None,
          .bias_dtype = options.bias ? options.bias.dtype() : DType::F32};
}

std::int64_t matmul_scratch_bytes(Compute& compute, const MatmulSpec& spec) {
  return compute.kernels().team_matmul(spec).scratch_bytes();
}

void matmul(Compute& compute, ConstView a, ConstView b, View out, const MatmulOptions& options) {
  const MatmulSpec spec = describe(a, b, out, options);
  onednn::MatmulKernel& kernel = compute.kernels().team_matmul(spec);
  CLEAVE_CHECK(kernel.scratch_bytes() <= static_cast<std::int64_t>(compute.scratch().size()),
               "matmul needs ", kernel.scratch_bytes(), " bytes of scratch and has ",
               compute.scratch().size());
  const onednn::TeamOf team(compute.threads());
  kernel.run({.a = a.bytes(),
              .b = b.bytes(),
              .out = out.bytes(),
              .bias = options.bias.bytes(),
              .scratch = compute.scratch().data()});
}

}  // namespace cleave::ops
