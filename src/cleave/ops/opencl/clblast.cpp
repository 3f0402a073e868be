#define CL_TARGET_OPENCL_VERSION 120  // as everywhere here; CLBlast asks for less
#include <clblast.h>

#include "cleave/ops/opencl/library_product.h"
#include "cleave/ops/product_library.h"

namespace cleave::ops {

std::string_view product_library() {
  return "CLBlast";
}

namespace opencl {
namespace {

/// The library has two ways. The indirect one copies matrices to buffers that it allocates, which
/// no plan has, unless a product is smaller than the cube of this: so none is large enough for it.
constexpr std::size_t kDirectBelow = std::size_t{1} << 20;

clblast::Transpose transposed(Transpose transpose) {
  return transpose == Transpose::Yes ? clblast::Transpose::kYes : clblast::Transpose::kNo;
}

std::size_t size(std::int64_t number) {
  return static_cast<std::size_t>(number);
}

}  // namespace

cl_int prepare_library(cl_device_id device) {
  return static_cast<cl_int>(
      clblast::OverrideParameters(device, "GemmRoutine", clblast::Precision::kSingle,
                                  {{"XGEMM_MIN_INDIRECT_SIZE", kDirectBelow}}));
}

cl_int multiply_by_library(const MatmulSpec& spec, Place a, Place b, Place out,
                           cl_command_queue queue) {
  const float beta = spec.write == Write::Accumulate ? 1.0f : 0.0f;
  // A batch of one has no stride, which the other call refuses.
  if (spec.batch == 1) {
    return static_cast<cl_int>(
        clblast::Gemm(clblast::Layout::kRowMajor, transposed(spec.a), transposed(spec.b),
                      size(spec.m), size(spec.n), size(spec.k), 1.0f, a.buffer, a.offset,
                      size(spec.a_stride), b.buffer, b.offset, size(spec.b_stride), beta,
                      out.buffer, out.offset, size(spec.out_stride), &queue));
  }
  return static_cast<cl_int>(clblast::GemmStridedBatched(
      clblast::Layout::kRowMajor, transposed(spec.a), transposed(spec.b), size(spec.m),
      size(spec.n), size(spec.k), 1.0f, a.buffer, a.offset, size(spec.a_stride),
      size(spec.a_batch_stride), b.buffer, b.offset, size(spec.b_stride), size(spec.b_batch_stride),
      beta, out.buffer, out.offset, size(spec.out_stride), size(spec.out_batch_stride),
      size(spec.batch), &queue));
}

void forget_library() noexcept {
  clblast::ClearCache();
}

}  // namespace opencl
}  // namespace cleave::ops
