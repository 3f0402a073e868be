#include "cleave/ops/opencl/device_memory.h"

#include <algorithm>

#include <sys/mman.h>
#include <unistd.h>

#include "cleave/base/check.h"
#include "cleave/base/units.h"

namespace cleave::ops::opencl {
namespace {

/// Lets the host use [begin, end); the page that begin lies in becomes readable as a whole.
void open_tail(std::byte* begin, std::byte* end) {
  if (begin == end) return;
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto first = reinterpret_cast<std::uintptr_t>(begin) / page * page;
  const auto length = reinterpret_cast<std::uintptr_t>(end) - first;
  const int failed = mprotect(reinterpret_cast<void*>(first), length, PROT_READ | PROT_WRITE);
  if (failed != 0)
    throw DoesNotFit("the system has no memory left for a copy of the state that is saved");
}

}  // namespace

bool DeviceMemory::on_host(const std::byte* at) const {
  const std::lock_guard lock(mutex_);
  return find(at) == nullptr;
}

std::byte* DeviceMemory::map(std::int64_t bytes, std::int64_t host_bytes) {
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
    refuse(own, detail::concat("error ", error));
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
void DeviceMemory::take(std::byte* base, std::int64_t own, std::int64_t bytes) {
  try {
    fill({base, static_cast<std::size_t>(own)}, std::byte{0});
    finish();
  } catch (const std::runtime_error& error) {
    unmap(base, bytes);
    refuse(own, error.what());
  }
}

void DeviceMemory::refuse(std::int64_t own, const std::string& reason) const {
  throw DoesNotFit(detail::concat(info_.kind, " (", info_.name, ") announces ",
                                  format_bytes(info_.memory), " and does not give the ",
                                  format_bytes(own), " that the device's plan needs (", reason,
                                  "); use a smaller model or more devices"));
}

void DeviceMemory::unmap(std::byte* block, std::int64_t bytes) noexcept {
  clFinish(queue_);
  const std::lock_guard lock(mutex_);
  std::erase_if(blocks_, [&](const Block& b) { return b.base == block; });
  munmap(block, static_cast<std::size_t>(bytes));
}

void DeviceMemory::copy(std::byte* to, const std::byte* from, std::int64_t bytes) {
  if (bytes == 0) return;
  const auto [source, from_offset] = place_of(from);
  const auto [target, to_offset] = place_of(to);
  check_running(clEnqueueCopyBuffer(queue_, source, target, from_offset, to_offset,
                                    static_cast<std::size_t>(bytes), 0, nullptr, nullptr),
                "clEnqueueCopyBuffer", info_);
}

void DeviceMemory::fill(std::span<std::byte> bytes, std::byte value) {
  if (bytes.empty()) return;
  const auto [buffer, offset] = place_of(bytes.data());
  check_running(
      clEnqueueFillBuffer(queue_, buffer, &value, 1, offset, bytes.size(), 0, nullptr, nullptr),
      "clEnqueueFillBuffer", info_);
}

std::pair<cl_mem, std::size_t> DeviceMemory::place_of(const std::byte* at) const {
  const std::lock_guard lock(mutex_);
  const Block* block = find(at);
  CLEAVE_CHECK(block != nullptr, "an address that is not in the memory of ", info_.kind);
  return {block->buffer.get(), static_cast<std::size_t>(at - block->base)};
}

void DeviceMemory::finish() {
  check_running(clFinish(queue_), "clFinish", info_);
}

void DeviceMemory::write(cl_command_queue queue, std::byte* to, std::span<const std::byte> from) {
  if (from.empty()) return;
  const auto [buffer, offset] = place_of(to);
  check_running(clEnqueueWriteBuffer(queue, buffer, CL_TRUE, offset, from.size(), from.data(), 0,
                                     nullptr, nullptr),
                "clEnqueueWriteBuffer", info_);
}

void DeviceMemory::read(cl_command_queue queue, const std::byte* from, std::span<std::byte> to) {
  if (to.empty()) return;
  const auto [buffer, offset] = place_of(from);
  check_running(clEnqueueReadBuffer(queue, buffer, CL_TRUE, offset, to.size(), to.data(), 0,
                                    nullptr, nullptr),
                "clEnqueueReadBuffer", info_);
}

const DeviceMemory::Block* DeviceMemory::find(const std::byte* at) const {
  for (const Block& block : blocks_)
    if (at >= block.base && at < block.base + block.bytes) return &block;
  return nullptr;
}

}  // namespace cleave::ops::opencl
