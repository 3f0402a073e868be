#pragma once

#include <cstddef>

#include "cleave/ops/opencl/api.h"
#include "cleave/spec/matmul_spec.h"

namespace cleave::ops::opencl {

/// A matrix of f32 in a buffer.
struct Place {
  cl_mem buffer;
  std::size_t offset;  ///< in elements
};

/// Once before the first product on a device: what it has compiled by then is compiled anew.
cl_int prepare_library(cl_device_id device);

/// Enqueues the product of f32 that `spec` describes, without bias, and allocates nothing on the
/// device. Returns a code of OpenCL, or of the library.
cl_int multiply_by_library(const MatmulSpec& spec, Place a, Place b, Place out,
                           cl_command_queue queue);

/// Lets go of what the library has compiled: contexts that are made later may have the address of
/// one that is gone.
void forget_library() noexcept;

}  // namespace cleave::ops::opencl
