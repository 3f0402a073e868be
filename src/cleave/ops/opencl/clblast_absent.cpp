#include "cleave/ops/opencl/library_product.h"
#include "cleave/ops/product_library.h"

namespace cleave::ops {

std::string_view product_library() {
  return {};
}

namespace opencl {

cl_int prepare_library(cl_device_id) {
  return CL_INVALID_OPERATION;
}

cl_int multiply_by_library(const MatmulSpec&, Place, Place, Place, cl_command_queue) {
  return CL_INVALID_OPERATION;
}

void forget_library() noexcept {}

}  // namespace opencl
}  // namespace cleave::ops
