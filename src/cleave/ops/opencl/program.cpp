#include <filesystem>
#include <optional>

#include "cleave/base/cache_directory.h"
#include "cleave/base/check.h"
#include "cleave/base/file.h"
#include "cleave/base/hash.h"
#include "cleave/base/version.h"
#include "cleave/ops/device/source.h"
#include "cleave/ops/opencl/api.h"

namespace cleave::ops::opencl {
namespace {

namespace fs = std::filesystem;

/// Where compiled kernels are kept; nothing if the environment names no place.
std::optional<fs::path> cache_folder() {
  const std::optional<fs::path> cache = cache_directory();
  return cache ? std::optional(*cache / "opencl") : std::nullopt;
}

std::string options_of(DType dtype) {
  return std::string("-cl-std=CL1.2 -cl-fp32-correctly-rounded-divide-sqrt -DCLEAVE_BF16=") +
         (dtype == DType::BF16 ? "1" : "0");
}

/// A hash of everything that the compiled form depends on.
std::string key_of(cl_device_id device, DType dtype) {
  Hasher hasher;
  for (const cl_device_info what : {CL_DEVICE_NAME, CL_DEVICE_VENDOR, CL_DEVICE_VERSION,
                                    CL_DRIVER_VERSION, CL_DEVICE_OPENCL_C_VERSION})
    hasher.add(text_of(device, what));
  hasher.add(options_of(dtype));
  hasher.add(device::kernel_source());
  return to_hex(hasher.digest());
}

/// A cache that cannot be written costs time at the next start, and nothing else.
void keep(const fs::path& file, std::string_view bytes) {
  try {
    fs::create_directories(file.parent_path());
    write_text_atomically(file, bytes);
  } catch (const std::exception&) {
  }
}

std::string log_of(cl_program program, cl_device_id device) {
  std::size_t size = 0;
  clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, 0, nullptr, &size);
  std::string log(size, '\0');
  clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, size, log.data(), nullptr);
  return log.c_str();
}

std::string binary_of(cl_program program) {
  std::size_t size = 0;
  check(clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof size, &size, nullptr),
        "clGetProgramInfo");
  std::string binary(size, '\0');
  auto* at = reinterpret_cast<unsigned char*>(binary.data());
  check(clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof at, &at, nullptr),
        "clGetProgramInfo");
  return binary;
}

/// Null if the file is not there or the driver does not want it: it may be another's by now.
Program from_cache(cl_context context, cl_device_id device, const fs::path& file, DType dtype) {
  std::error_code none;
  if (!fs::exists(file, none)) return nullptr;
  try {
    const std::string binary = read_text(file);
    const auto* at = reinterpret_cast<const unsigned char*>(binary.data());
    const std::size_t size = binary.size();
    cl_int loaded = CL_SUCCESS;
    cl_int error = CL_SUCCESS;
    Program program(clCreateProgramWithBinary(context, 1, &device, &size, &at, &loaded, &error));
    if (error != CL_SUCCESS || loaded != CL_SUCCESS) return nullptr;
    const std::string options = options_of(dtype);
    if (clBuildProgram(program.get(), 1, &device, options.c_str(), nullptr, nullptr) != CL_SUCCESS)
      return nullptr;
    return program;
  } catch (const UserError&) {
    return nullptr;
  }
}

}  // namespace

Program build_program(cl_context context, cl_device_id device, const std::string& kind,
                      DType dtype) {
  const std::optional<fs::path> folder = cache_folder();
  const std::string key = key_of(device, dtype);
  if (folder) {
    if (Program program = from_cache(context, device, *folder / (key + ".bin"), dtype))
      return program;
  }
  const std::string_view source = device::kernel_source();
  const char* text = source.data();
  const std::size_t length = source.size();
  cl_int error = CL_SUCCESS;
  Program program(clCreateProgramWithSource(context, 1, &text, &length, &error));
  check(error, "clCreateProgramWithSource");
  const std::string options = options_of(dtype);
  error = clBuildProgram(program.get(), 1, &device, options.c_str(), nullptr, nullptr);
  if (error != CL_SUCCESS) {
    const std::string log = log_of(program.get(), device);
    if (folder) keep(*folder / (key + ".log"), log);
    throw UserError(detail::concat(
        "the driver of ", kind, " (", text_of(device, CL_DEVICE_NAME),
        ") does not compile the kernels; ",
        folder ? detail::concat("its messages are in ", (*folder / (key + ".log")).string(),
                                "; update the driver, or leave the device out")
               : "it says: " + log));
  }
  if (folder) keep(*folder / (key + ".bin"), binary_of(program.get()));
  return program;
}

}  // namespace cleave::ops::opencl
