#include <algorithm>
#include <array>
#include <cstring>

#include <fmt/format.h>

#include "cleave/base/check.h"
#include "cleave/ops/opencl/api.h"

namespace cleave::ops {
namespace opencl {
namespace {

struct NamedError {
  cl_int code;
  const char* name;
};

// What drivers answer once a device has been reset, unplugged or has failed.
constexpr std::array kLosses = {CL_DEVICE_NOT_AVAILABLE, CL_OUT_OF_RESOURCES,
                                CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, CL_INVALID_DEVICE,
                                CL_INVALID_COMMAND_QUEUE};

constexpr std::array kErrors = {
    NamedError{CL_DEVICE_NOT_FOUND, "no device found"},
    NamedError{CL_DEVICE_NOT_AVAILABLE, "the device is not available"},
    NamedError{CL_COMPILER_NOT_AVAILABLE, "there is no compiler for the device"},
    NamedError{CL_MEM_OBJECT_ALLOCATION_FAILURE, "the device has no memory left"},
    NamedError{CL_OUT_OF_RESOURCES, "the device is out of resources"},
    NamedError{CL_OUT_OF_HOST_MEMORY, "the host has no memory left"},
    NamedError{CL_BUILD_PROGRAM_FAILURE, "the kernels do not compile"},
    NamedError{CL_INVALID_BUFFER_SIZE, "the block is too large for the device"},
    NamedError{CL_INVALID_WORK_GROUP_SIZE, "the device does not take groups of that size"},
};

/// What exactness needs and the device does not have; empty if it has all.
std::string missing(cl_device_id device, cl_device_fp_config config) {
  if ((config & CL_FP_DENORM) == 0) return "it has no denormal numbers";
  if ((config & CL_FP_ROUND_TO_NEAREST) == 0) return "it does not round to nearest";
  if ((config & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT) == 0)
    return "it does not round divisions and square roots correctly";
  if (number_of<cl_device_fp_config>(device, CL_DEVICE_DOUBLE_FP_CONFIG) == 0)
    return "it has no arithmetic in f64";
  if (number_of<cl_bool>(device, CL_DEVICE_ENDIAN_LITTLE) == CL_FALSE)
    return "its numbers have their bytes in another order";
  if (number_of<std::size_t>(device, CL_DEVICE_MAX_WORK_GROUP_SIZE) < 64)
    return "it does not take groups of 64 lanes";
  if (number_of<cl_bool>(device, CL_DEVICE_COMPILER_AVAILABLE) == CL_FALSE)
    return "it has no compiler";
  return "";
}

AcceleratorInfo describe(cl_device_id device, std::size_t number) {
  const auto config = number_of<cl_device_fp_config>(device, CL_DEVICE_SINGLE_FP_CONFIG);
  AcceleratorInfo info{
      .kind = "opencl:" + std::to_string(number),
      .name = text_of(device, CL_DEVICE_NAME),
      .platform =
          text_of(device, CL_DEVICE_VERSION) + ", driver " + text_of(device, CL_DRIVER_VERSION),
      .memory = static_cast<std::int64_t>(number_of<cl_ulong>(device, CL_DEVICE_GLOBAL_MEM_SIZE)),
      .largest_block =
          static_cast<std::int64_t>(number_of<cl_ulong>(device, CL_DEVICE_MAX_MEM_ALLOC_SIZE)),
      .fused = (config & CL_FP_FMA) != 0,
      .denormals = (config & CL_FP_DENORM) != 0,
      .rounds_division = (config & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT) != 0,
      .doubles = number_of<cl_device_fp_config>(device, CL_DEVICE_DOUBLE_FP_CONFIG) != 0};
  info.problem = missing(device, config);
  return info;
}

}  // namespace

namespace {

/// "clCreateContext: the device is out of resources (-5)".
std::string describe_error(cl_int code, const char* call) {
  for (const NamedError& error : kErrors)
    if (error.code == code) return fmt::format("{}: {} ({})", call, error.name, code);
  return fmt::format("{} gives error {}", call, code);
}

}  // namespace

void check(cl_int code, const char* call) {
  if (code == CL_SUCCESS) return;
  throw std::runtime_error("OpenCL: " + describe_error(code, call));
}

void check_running(cl_int code, const char* call, const AcceleratorInfo& info) {
  if (code == CL_SUCCESS) return;
  if (std::ranges::find(kLosses, code) == kLosses.end()) return check(code, call);
  throw DeviceLost(fmt::format(
      "{} ({}) was lost at {}; the newest checkpoint is whole: look after the device or set "
      "devices.kind to another one, and go on with --resume",
      info.kind, info.name, describe_error(code, call)));
}

std::string text_of(cl_device_id device, cl_device_info what) {
  std::size_t size = 0;
  check(clGetDeviceInfo(device, what, 0, nullptr, &size), "clGetDeviceInfo");
  std::string text(size, '\0');
  check(clGetDeviceInfo(device, what, size, text.data(), nullptr), "clGetDeviceInfo");
  return text.c_str();  // without the zero at its end
}

std::vector<cl_device_id> all_devices() {
  cl_uint count = 0;
  // Without any driver this is an error of its own; then there are none.
  if (clGetPlatformIDs(0, nullptr, &count) != CL_SUCCESS || count == 0) return {};
  std::vector<cl_platform_id> platforms(count);
  check(clGetPlatformIDs(count, platforms.data(), nullptr), "clGetPlatformIDs");
  std::vector<cl_device_id> devices;
  for (cl_platform_id platform : platforms) {
    cl_uint here = 0;
    if (clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &here) != CL_SUCCESS) continue;
    const std::size_t before = devices.size();
    devices.resize(before + here);
    check(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, here, devices.data() + before, nullptr),
          "clGetDeviceIDs");
  }
  return devices;
}

}  // namespace opencl

bool built_with_opencl() {
  return true;
}

Accelerators find_accelerators() {
  Accelerators found;
  const std::vector<cl_device_id> devices = opencl::all_devices();
  for (std::size_t i = 0; i < devices.size(); ++i)
    found.all.push_back(opencl::describe(devices[i], i));
  if (found.all.empty())
    found.problem =
        "no driver offers an OpenCL device; install one, such as the package pocl-opencl-icd";
  return found;
}

}  // namespace cleave::ops
