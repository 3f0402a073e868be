// In place of the other files of this folder where cleave is built without OpenCL.

#include "cleave/base/check.h"
#include "cleave/ops/accelerator.h"
#include "cleave/ops/product_library.h"

namespace cleave::ops {

std::string_view product_library() {
  return {};
}

bool multiply_by_library(Accelerator&, const MatmulSpec&, ConstView, ConstView, View) {
  return false;
}

bool built_with_opencl() {
  return false;
}

Accelerators find_accelerators() {
  return {.all = {},
          .problem =
              "this cleave was built without OpenCL; install ocl-icd-opencl-dev and "
              "opencl-headers, and build it anew with CLEAVE_OPENCL=ON"};
}

std::unique_ptr<Accelerator> open_accelerator(const AcceleratorInfo& info) {
  CLEAVE_CHECK(false, info.kind, " without OpenCL");
  return nullptr;
}

}  // namespace cleave::ops
