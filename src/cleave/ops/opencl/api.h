#pragma once

#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#endif
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include <CL/cl.h>

#include "cleave/ops/accelerator.h"

// What only the files of this folder include: the OpenCL API with errors and owners.
namespace cleave::ops::opencl {

/// Throws DeviceError unless `code` is CL_SUCCESS: "clCreateContext: CL_OUT_OF_RESOURCES (-5)".
void check(cl_int code, const char* call);

/// The same of what a device is asked while it runs: throws DeviceLost, with its kind and name, if
/// `code` says that the device is gone.
void check_running(cl_int code, const char* call, const AcceleratorInfo& info);

template <auto kRelease>
struct Releaser {
  template <class T>
  void operator()(T* object) const {
    kRelease(object);
  }
};
template <class T, auto kRelease>
using Owned = std::unique_ptr<std::remove_pointer_t<T>, Releaser<kRelease>>;

using Context = Owned<cl_context, clReleaseContext>;
using Queue = Owned<cl_command_queue, clReleaseCommandQueue>;
using Buffer = Owned<cl_mem, clReleaseMemObject>;
using Program = Owned<cl_program, clReleaseProgram>;
using Kernel = Owned<cl_kernel, clReleaseKernel>;

/// A text that a device answers with.
std::string text_of(cl_device_id device, cl_device_info what);

/// A number that a device answers with.
template <class T>
T number_of(cl_device_id device, cl_device_info what) {
  T value{};
  check(clGetDeviceInfo(device, what, sizeof value, &value, nullptr), "clGetDeviceInfo");
  return value;
}

/// All devices of all platforms, in the order in which "opencl:N" counts them.
std::vector<cl_device_id> all_devices();

/// The kernels for elements of a dtype: from the cache on disk, or built from source.
Program build_program(cl_context context, cl_device_id device, const std::string& kind,
                      DType dtype);

}  // namespace cleave::ops::opencl
