#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <utility>

#include <sys/mman.h>
#include <unistd.h>

#include "cleave/base/check.h"
#include "cleave/base/units.h"
#include "cleave/ops/opencl/api.h"
#include "cleave/ops/opencl/library_product.h"
#include "cleave/ops/product_library.h"

namespace cleave::ops {
namespace opencl {
namespace {

/// Blocks of a device's memory, each a buffer behind a range of addresses that nobody can read.
///
/// Copies may come from a second thread, as saving does: hence the lock on the list of blocks.
class DeviceMemory final : public Memory {
 public:
  /// Kernels run on `queue`; what moves beside them is on `moves`.
  DeviceMemory(cl_context context, cl_command_queue queue, cl_command_queue moves,
               const AcceleratorInfo& info)
      : context_(context), queue_(queue), moves_(moves), info_(info) {}

  bool on_host(const std::byte* at) const override {
    const std::lock_guard lock(mutex_);
    return find(at) == nullptr;
  }

  std::byte* map(std::int64_t bytes, std::int64_t host_bytes) override {
    const std::int64_t own = bytes - host_bytes;
    if (own > std::min(info_.memory, info_.largest_block)) {
      throw DoesNotFit(detail::concat(
          info_.kind, " (", info_.name, ") has ", format_bytes(info_.memory), " and gives at most ",
          format_bytes(info_.largest_block), " in one block, but the device's plan needs ",
          format_bytes(own), "; use a smaller model or more devices"));
    }
    void* range = mmap(nullptr, static_cast<std::size_t>(bytes), PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED)
      throw DoesNotFit("the system does not give a device the addresses of its " +
                       format_bytes(bytes) + "; raise ulimit -v");
    auto* base = static_cast<std::byte*>(range);
    cl_int error = CL_SUCCESS;
    Block block{base, own,
                Buffer(clCreateBuffer(context_, CL_MEM_READ_WRITE,
                                      static_cast<std::size_t>(std::max<std::int64_t>(own, 64)),
                                      nullptr, &error))};
    if (error != CL_SUCCESS) {
      munmap(range, static_cast<std::size_t>(bytes));
      throw DoesNotFit(detail::concat(info_.kind, " (", info_.name, ") announces ",
                                      format_bytes(info_.memory), " and does not give the ",
                                      format_bytes(own), " that the device's plan needs (error ",
                                      error, "); use a smaller model or more devices"));
    }
    open_tail(base + own, base + bytes);
    {
      const std::lock_guard lock(mutex_);
      blocks_.push_back(std::move(block));
    }
    take(base, own, bytes);
    return base;
  }

  /// Drivers may give memory only when it is first written: zeros, so that what lacks lacks here.
  void take(std::byte* base, std::int64_t own, std::int64_t bytes) {
    try {
      fill({base, static_cast<std::size_t>(own)}, std::byte{0});
      finish();
    } catch (const std::runtime_error& error) {
      unmap(base, bytes);
      throw DoesNotFit(detail::concat(info_.kind, " (", info_.name, ") announces ",
                                      format_bytes(info_.memory), " and does not give the ",
                                      format_bytes(own), " that the device's plan needs (",
                                      error.what(), "); use a smaller model or more devices"));
    }
  }

  void unmap(std::byte* block, std::int64_t bytes) noexcept override {
    clFinish(queue_);
    const std::lock_guard lock(mutex_);
    std::erase_if(blocks_, [&](const Block& b) { return b.base == block; });
    munmap(block, static_cast<std::size_t>(bytes));
  }

  void copy_in(std::byte* to, std::span<const std::byte> from) override { write(queue_, to, from); }
  void copy_out(const std::byte* from, std::span<std::byte> to) override { read(queue_, from, to); }
  void move_in(std::byte* to, std::span<const std::byte> from) override { write(moves_, to, from); }
  void move_out(const std::byte* from, std::span<std::byte> to) override { read(moves_, from, to); }
  void copy(std::byte* to, const std::byte* from, std::int64_t bytes) override {
    if (bytes == 0) return;
    const auto [source, from_offset] = place_of(from);
    const auto [target, to_offset] = place_of(to);
    check_running(clEnqueueCopyBuffer(queue_, source, target, from_offset, to_offset,
                                      static_cast<std::size_t>(bytes), 0, nullptr, nullptr),
                  "clEnqueueCopyBuffer", info_);
  }
  void fill(std::span<std::byte> bytes, std::byte value) override {
    if (bytes.empty()) return;
    const auto [buffer, offset] = place_of(bytes.data());
    check_running(
        clEnqueueFillBuffer(queue_, buffer, &value, 1, offset, bytes.size(), 0, nullptr, nullptr),
        "clEnqueueFillBuffer", info_);
  }

  /// The buffer that has `at`, and where in it.
  std::pair<cl_mem, std::size_t> place_of(const std::byte* at) const {
    const std::lock_guard lock(mutex_);
    const Block* block = find(at);
    CLEAVE_CHECK(block != nullptr, "an address that is not in the memory of ", info_.kind);
    return {block->buffer.get(), static_cast<std::size_t>(at - block->base)};
  }

  void finish() { check_running(clFinish(queue_), "clFinish", info_); }

 private:
  struct Block {
    std::byte* base;
    std::int64_t bytes;
    Buffer buffer;
  };

  void write(cl_command_queue queue, std::byte* to, std::span<const std::byte> from) {
    if (from.empty()) return;
    const auto [buffer, offset] = place_of(to);
    check_running(clEnqueueWriteBuffer(queue, buffer, CL_TRUE, offset, from.size(), from.data(), 0,
                                       nullptr, nullptr),
                  "clEnqueueWriteBuffer", info_);
  }
  void read(cl_command_queue queue, const std::byte* from, std::span<std::byte> to) {
    if (to.empty()) return;
    const auto [buffer, offset] = place_of(from);
    check_running(clEnqueueReadBuffer(queue, buffer, CL_TRUE, offset, to.size(), to.data(), 0,
                                      nullptr, nullptr),
                  "clEnqueueReadBuffer", info_);
  }

  const Block* find(const std::byte* at) const {
    for (const Block& block : blocks_)
      if (at >= block.base && at < block.base + block.bytes) return &block;
    return nullptr;
  }

  /// Lets the host use [begin, end); the page that begin lies in becomes readable as a whole.
  static void open_tail(std::byte* begin, std::byte* end) {
    if (begin == end) return;
    const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    const auto first = reinterpret_cast<std::uintptr_t>(begin) / page * page;
    const auto length = reinterpret_cast<std::uintptr_t>(end) - first;
    const int failed = mprotect(reinterpret_cast<void*>(first), length, PROT_READ | PROT_WRITE);
    if (failed != 0)
      throw DoesNotFit("the system has no memory left for a copy of the state that is saved");
  }

  cl_context context_;
  cl_command_queue queue_;
  cl_command_queue moves_;
  const AcceleratorInfo& info_;
  mutable std::mutex mutex_;
  std::vector<Block> blocks_;
};

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
