// A driver that fails where FAULTY_OPENCL says, loaded before the real one (LD_PRELOAD):
//
//     build       no kernel compiles, and the log says "faulty: no kernels today"
//     memory      no buffer is given
//     after:PATH  once there is such a file the device is not available
//     pages       buffers are given, and writing them fails
//     names       every device but the first that is asked has another name

#include <cstdlib>
#include <cstring>
#include <string_view>

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <dlfcn.h>
#include <unistd.h>

namespace {

constexpr char kLog[] = "faulty: no kernels today";
constexpr char kOtherName[] = "faulty: another sort";

std::string_view fault() {
  const char* name = std::getenv("FAULTY_OPENCL");
  return name == nullptr ? std::string_view() : name;
}

template <class Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

/// As OpenCL gives a text to who asks for it.
template <size_t kSize>
cl_int answer(const char (&text)[kSize], size_t room, void* value, size_t* size) {
  if (size != nullptr) *size = kSize;
  if (value != nullptr && room >= kSize) std::memcpy(value, text, kSize);
  return CL_SUCCESS;
}

}  // namespace

extern "C" {

cl_int clBuildProgram(cl_program program, cl_uint devices, const cl_device_id* list,
                      const char* options, void(CL_CALLBACK* done)(cl_program, void*), void* data) {
  if (fault() == "build") return CL_BUILD_PROGRAM_FAILURE;
  return real<decltype(clBuildProgram)>("clBuildProgram")(program, devices, list, options, done,
                                                          data);
}

cl_int clGetProgramBuildInfo(cl_program program, cl_device_id device, cl_program_build_info what,
                             size_t room, void* value, size_t* size) {
  if (fault() != "build" || what != CL_PROGRAM_BUILD_LOG)
    return real<decltype(clGetProgramBuildInfo)>("clGetProgramBuildInfo")(program, device, what,
                                                                          room, value, size);
  return answer(kLog, room, value, size);
}

cl_int clGetDeviceInfo(cl_device_id device, cl_device_info what, size_t room, void* value,
                       size_t* size) {
  static const cl_device_id first = device;
  if (fault() == "names" && what == CL_DEVICE_NAME && device != first)
    return answer(kOtherName, room, value, size);
  return real<decltype(clGetDeviceInfo)>("clGetDeviceInfo")(device, what, room, value, size);
}

cl_mem clCreateBuffer(cl_context context, cl_mem_flags flags, size_t bytes, void* host,
                      cl_int* error) {
  if (fault() != "memory")
    return real<decltype(clCreateBuffer)>("clCreateBuffer")(context, flags, bytes, host, error);
  if (error != nullptr) *error = CL_MEM_OBJECT_ALLOCATION_FAILURE;
  return nullptr;
}

cl_int clEnqueueFillBuffer(cl_command_queue queue, cl_mem buffer, const void* pattern,
                           size_t pattern_bytes, size_t offset, size_t bytes, cl_uint waits,
                           const cl_event* events, cl_event* event) {
  if (fault() == "pages") return CL_MEM_OBJECT_ALLOCATION_FAILURE;
  return real<decltype(clEnqueueFillBuffer)>("clEnqueueFillBuffer")(
      queue, buffer, pattern, pattern_bytes, offset, bytes, waits, events, event);
}

cl_int clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dims,
                              const size_t* offsets, const size_t* items, const size_t* lanes,
                              cl_uint waits, const cl_event* events, cl_event* event) {
  if (fault().starts_with("after:") && access(fault().data() + 6, F_OK) == 0)
    return CL_DEVICE_NOT_AVAILABLE;
  return real<decltype(clEnqueueNDRangeKernel)>("clEnqueueNDRangeKernel")(
      queue, kernel, dims, offsets, items, lanes, waits, events, event);
}
}
