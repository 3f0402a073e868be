#include <array>
#include <map>
#include <utility>

#include "cleave/base/check.h"
#include "cleave/ops/opencl/api.h"
#include "cleave/ops/opencl/device_memory.h"
#include "cleave/ops/opencl/library_product.h"
#include "cleave/ops/product_library.h"

namespace cleave::ops {
namespace opencl {
namespace {

class Device final : public Accelerator {
 public:
  Device(cl_device_id device, AcceleratorInfo info)
      : device_(device),
        info_(std::move(info)),
        context_(make_context(device)),
        queue_(make_queue(context_.get(), device)),
        moves_(make_queue(context_.get(), device)),
        memory_(context_.get(), queue_.get(), moves_.get(), info_) {
    // Now, so that a driver that cannot is told from the start.
    program(DType::F32);
  }
  ~Device() override {
    clFinish(queue_.get());
    forget_library();
  }

  const std::string& name() const override { return info_.name; }
  Memory& memory() override { return memory_; }
  void finish() override { memory_.finish(); }

  bool multiply(const MatmulSpec& spec, ConstView a, ConstView b, View out) {
    if (product_library().empty() || spec.in != DType::F32 || spec.out != DType::F32) return false;
    const auto place = [&](const std::byte* at) {
      const auto [buffer, offset] = memory_.place_of(at);
      return Place{buffer, offset / sizeof(float)};
    };
    if (!library_prepared_) check(prepare_library(device_), "CLBlast");
    library_prepared_ = true;
    const cl_int code = opencl::multiply_by_library(spec, place(a.bytes()), place(b.bytes()),
                                                    place(out.bytes()), queue_.get());
    check_running(code, "CLBlast", info_);
    return true;
  }

  void launch(const KernelCall& call) override {
    cl_kernel kernel = kernel_of(call);
    const cl_mem arena = arena_of(call);
    check(clSetKernelArg(kernel, 0, sizeof arena, &arena), call.kernel);
    cl_uint index = 1;
    for (const KernelArgument& argument : call.arguments) set(kernel, index++, argument, call);
    const auto lanes = static_cast<std::size_t>(call.lanes);
    const std::size_t items = static_cast<std::size_t>(call.groups) * lanes;
    check_running(clEnqueueNDRangeKernel(queue_.get(), kernel, 1, nullptr, &items, &lanes, 0,
                                         nullptr, nullptr),
                  call.kernel, info_);
  }

 private:
  static Context make_context(cl_device_id device) {
    cl_int error = CL_SUCCESS;
    Context context(clCreateContext(nullptr, 1, &device, nullptr, nullptr, &error));
    check(error, "clCreateContext");
    return context;
  }
  static Queue make_queue(cl_context context, cl_device_id device) {
    cl_int error = CL_SUCCESS;
    Queue queue(clCreateCommandQueue(context, device, 0, &error));
    check(error, "clCreateCommandQueue");
    return queue;
  }

  cl_program program(DType dtype) {
    Program& program = programs_[dtype == DType::BF16 ? 1 : 0];
    if (program == nullptr)
      program = build_program(context_.get(), device_, info_.kind,
                              dtype == DType::BF16 ? DType::BF16 : DType::F32);
    return program.get();
  }

  cl_kernel kernel_of(const KernelCall& call) {
    Kernel& kernel = kernels_[{call.kernel, call.dtype == DType::BF16}];
    if (kernel == nullptr) {
      cl_int error = CL_SUCCESS;
      kernel.reset(clCreateKernel(program(call.dtype), call.kernel, &error));
      check(error, call.kernel);
    }
    return kernel.get();
  }

  /// All tensors of a call lie in one block.
  cl_mem arena_of(const KernelCall& call) const {
    for (const KernelArgument& argument : call.arguments) {
      if (argument.kind() == KernelArgument::Kind::Tensor && argument.at() != nullptr)
        return memory_.place_of(argument.at()).first;
    }
    CLEAVE_CHECK(false, call.kernel, " has no tensors");
    return nullptr;
  }

  void set(cl_kernel kernel, cl_uint index, const KernelArgument& argument,
           const KernelCall& call) const {
    if (argument.kind() == KernelArgument::Kind::Real) {
      const cl_float real = argument.real();
      return check(clSetKernelArg(kernel, index, sizeof real, &real), call.kernel);
    }
    cl_long number = argument.number();
    if (argument.kind() == KernelArgument::Kind::Tensor) {
      number = argument.at() == nullptr
                   ? -1
                   : static_cast<cl_long>(memory_.place_of(argument.at()).second);
    }
    check(clSetKernelArg(kernel, index, sizeof number, &number), call.kernel);
  }

  cl_device_id device_;
  AcceleratorInfo info_;
  Context context_;
  Queue queue_;
  Queue moves_;
  DeviceMemory memory_;
  std::array<Program, 2> programs_;  ///< for f32 and for bf16
  std::map<std::pair<std::string_view, bool>, Kernel> kernels_;
  bool library_prepared_ = false;
};

}  // namespace
}  // namespace opencl

bool multiply_by_library(Accelerator& device, const MatmulSpec& spec, ConstView a, ConstView b,
                         View out) {
  auto* opened = dynamic_cast<opencl::Device*>(&device);
  return opened != nullptr && opened->multiply(spec, a, b, out);
}

std::unique_ptr<Accelerator> open_accelerator(const AcceleratorInfo& info) {
  const std::vector<cl_device_id> devices = opencl::all_devices();
  const auto number =
      static_cast<std::size_t>(std::stoi(info.kind.substr(info.kind.find(':') + 1)));
  CLEAVE_CHECK(number < devices.size(), info.kind, " is gone");
  return std::make_unique<opencl::Device>(devices[number], info);
}

}  // namespace cleave::ops
