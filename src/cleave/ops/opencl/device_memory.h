#pragma once

#include <mutex>
#include <utility>
#include <vector>

#include "cleave/ops/opencl/api.h"
#include "cleave/tensor/memory.h"

namespace cleave::ops::opencl {

/// Blocks of a device's memory, each a buffer behind a range of addresses that nobody can read.
///
/// Copies may come from a second thread, as saving does: hence the lock on the list of blocks.
class DeviceMemory final : public Memory {
 public:
  /// Kernels run on `queue`; what moves beside them is on `moves`. All of it must outlive this.
  DeviceMemory(cl_context context, cl_command_queue queue, cl_command_queue moves,
               const AcceleratorInfo& info)
      : context_(context), queue_(queue), moves_(moves), info_(info) {}

  bool on_host(const std::byte* at) const override;
  std::byte* map(std::int64_t bytes, std::int64_t host_bytes) override;
  void unmap(std::byte* block, std::int64_t bytes) noexcept override;

  void copy_in(std::byte* to, std::span<const std::byte> from) override { write(queue_, to, from); }
  void copy_out(const std::byte* from, std::span<std::byte> to) override { read(queue_, from, to); }
  void move_in(std::byte* to, std::span<const std::byte> from) override { write(moves_, to, from); }
  void move_out(const std::byte* from, std::span<std::byte> to) override { read(moves_, from, to); }
  void copy(std::byte* to, const std::byte* from, std::int64_t bytes) override;
  void fill(std::span<std::byte> bytes, std::byte value) override;

  /// The buffer that has `at`, and where in it.
  std::pair<cl_mem, std::size_t> place_of(const std::byte* at) const;

  /// Waits until the kernels are done.
  void finish();

 private:
  struct Block {
    std::byte* base;
    std::int64_t bytes;
    Buffer buffer;
  };

  void take(std::byte* base, std::int64_t own, std::int64_t bytes);
  [[noreturn]] void refuse(std::int64_t own, const std::string& reason) const;
  void write(cl_command_queue queue, std::byte* to, std::span<const std::byte> from);
  void read(cl_command_queue queue, const std::byte* from, std::span<std::byte> to);
  const Block* find(const std::byte* at) const;

  cl_context context_;
  cl_command_queue queue_;
  cl_command_queue moves_;
  const AcceleratorInfo& info_;
  mutable std::mutex mutex_;
  std::vector<Block> blocks_;
};

}  // namespace cleave::ops::opencl
