#include "cleave/ops/matmul.h"

#include <algorithm>

#include "cleave/base/units.h"
#include "cleave/ops/device/product.h"
#include "cleave/ops/onednn/amx_matmul.h"
#include "cleave/ops/parallel.h"
#include "cleave/ops/simd/gemm.h"

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

GemmOperand operand(const std::byte* at, DType dtype, Transpose transpose, std::int64_t stride) {
  const bool swapped = transpose == Transpose::Yes;
  return {at, dtype, swapped ? 1 : stride, swapped ? stride : 1};
}

/// How a product is cut for the threads: along the batch, or along a side of out. No cut changes a
/// bit of the result.
///
/// Threads that have rows of their own pack all of b, each for itself; those that have columns pack
/// all of a, unless it is read where it is.
struct Cut {
  enum class Along { Batch, Rows, Columns } along;
  std::int64_t count;  // of matrices, rows or columns
  std::int64_t grain;
  std::int64_t scratch_bytes;  // of one thread

  Cut(const Compute& compute, const GemmKernel& kernel, const MatmulSpec& spec) {
    // Less is not worth waking a thread for: about 10 microseconds.
    constexpr std::int64_t kLeastFlops = 1 << 20;
    const GemmOperand a = operand(nullptr, spec.in, spec.a, spec.a_stride);
    std::int64_t m = spec.m;
    std::int64_t n = spec.n;
    const auto pieces_of = [&](std::int64_t unit, std::int64_t flops_per_item) {
      grain = unit * std::max<std::int64_t>(1, kLeastFlops / (unit * flops_per_item + 1));
      const std::int64_t units = (count + grain - 1) / grain;
      const std::int64_t pieces = std::min<std::int64_t>(units, compute.threads());
      return std::min(count, (units + pieces - 1) / pieces * grain);
    };
    if (spec.batch > 1) {
      along = Along::Batch;
      count = spec.batch;
      pieces_of(1, 2 * spec.m * spec.n * spec.k);
    } else if (spec.n >= spec.m ||
               (!packs_rows(kernel, a, spec.k) && spec.n >= compute.threads() * kGemmColumns)) {
      along = Along::Columns;
      count = spec.n;
      n = pieces_of(kGemmColumns, 2 * spec.m * spec.k);
    } else {
      along = Along::Rows;
      count = spec.m;
      m = pieces_of(kGemmRows, 2 * spec.n * spec.k);
    }
    scratch_bytes = aligned(gemm_scratch_bytes(kernel, m, n, spec.k, spec.out));
  }
};

/// The first matrix of a batch.
Gemm whole(const MatmulSpec& spec, ConstView a, ConstView b, View out, ConstView bias) {
  return {.m = spec.m,
          .n = spec.n,
          .k = spec.k,
          .a = operand(a.bytes(), spec.in, spec.a, spec.a_stride),
          .b = operand(b.bytes(), spec.in, spec.b, spec.b_stride),
          .out = {.at = out.bytes(),
                  .dtype = spec.out,
                  .stride = spec.out_stride,
                  .write = spec.write,
                  .bias = bias.bytes(),
                  .bias_dtype = spec.bias_dtype}};
}

Gemm columns_of(Gemm product, std::int64_t begin, std::int64_t end) {
  product.n = end - begin;
  product.b.at += begin * product.b.column_stride * size_of(product.b.dtype);
  product.out.at += begin * size_of(product.out.dtype);
  if (product.out.bias) product.out.bias += begin * size_of(product.out.bias_dtype);
  return product;
}

Gemm rows_of(Gemm product, std::int64_t begin, std::int64_t end) {
  product.m = end - begin;
  product.a.at += begin * product.a.row_stride * size_of(product.a.dtype);
  product.out.at += begin * product.out.stride * size_of(product.out.dtype);
  return product;
}

Gemm matrix_of(Gemm product, const MatmulSpec& spec, std::int64_t index) {
  product.a.at += index * spec.a_batch_stride * size_of(spec.in);
  product.b.at += index * spec.b_batch_stride * size_of(spec.in);
  product.out.at += index * spec.out_batch_stride * size_of(spec.out);
  return product;
}

bool uses_amx(const Compute& compute, DType dtype) {
  return compute.arithmetic() == Arithmetic::Fastest && onednn::has_amx(dtype);
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
  if (uses_amx(compute, spec.in)) return onednn::amx_matmul_scratch_bytes(compute, spec);
  const GemmKernel& kernel = gemm_kernel(spec.in, compute.arithmetic());
  return Cut(compute, kernel, spec).scratch_bytes * compute.threads();
}

void matmul(Compute& compute, ConstView a, ConstView b, View out, const MatmulOptions& options) {
  const MatmulSpec spec = describe(a, b, out, options);
  if (Accelerator* device = compute.accelerator()) {
    const bool library = compute.arithmetic() == Arithmetic::Fastest;
    if (library && device::multiply_by_library(*device, spec, a, b, out, options.bias)) return;
    return device::matmul(*device, spec, a, b, out, options.bias);
  }
  if (uses_amx(compute, spec.in)) {
    return onednn::amx_matmul(compute, spec, a, b, out, options.bias);
  }
  const GemmKernel& kernel = gemm_kernel(spec.in, compute.arithmetic());
  const Cut cut(compute, kernel, spec);
  CLEAVE_CHECK(
      cut.scratch_bytes * compute.threads() <= static_cast<std::int64_t>(compute.scratch().size()),
      "matmul needs ", cut.scratch_bytes * compute.threads(), " bytes of scratch and has ",
      compute.scratch().size());
  const Gemm product = whole(spec, a, b, out, options.bias);
  parallel_pieces(compute, cut.count, cut.grain,
                  [&](int piece, std::int64_t begin, std::int64_t end) {
                    std::byte* scratch = compute.scratch().data() + piece * cut.scratch_bytes;
                    if (cut.along == Cut::Along::Columns) {
                      gemm(kernel, columns_of(product, begin, end), scratch);
                    } else if (cut.along == Cut::Along::Rows) {
                      gemm(kernel, rows_of(product, begin, end), scratch);
                    } else {
                      for (std::int64_t index = begin; index < end; ++index) {
                        gemm(kernel, matrix_of(product, spec, index), scratch);
                      }
                    }
                  });
}

}  // namespace cleave::ops
