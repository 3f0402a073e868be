#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cleave/tensor/view.h"

namespace cleave {

/// Where a device's elements lie: the host's memory, or an accelerator's.
///
/// An address in an accelerator's memory is a place in a range that is reserved on the host and
/// cannot be read there: views and offsets work as ever, and host code that touches an element
/// stops at once instead of reading what is not there. Elements are reached by kernels, or through
/// here.
class Memory {
 public:
  virtual ~Memory() = default;

  /// True if `at` is the host's to read and write.
  virtual bool on_host(const std::byte* at) const = 0;

  /// One block of zeros, 64-byte aligned, of which the last `host_bytes` are the host's in any
  /// memory. Throws DoesNotFit if there is no room for it.
  virtual std::byte* map(std::int64_t bytes, std::int64_t host_bytes) = 0;
  virtual void unmap(std::byte* block, std::int64_t bytes) noexcept = 0;

  virtual void copy_in(std::byte* to, std::span<const std::byte> from) = 0;
  virtual void copy_out(const std::byte* from, std::span<std::byte> to) = 0;
  /// The same beside what the device computes: nothing that was launched may touch these bytes.
  virtual void move_in(std::byte* to, std::span<const std::byte> from) { copy_in(to, from); }
  virtual void move_out(const std::byte* from, std::span<std::byte> to) { copy_out(from, to); }
  /// Copies between two places of this memory that do not overlap.
  virtual void copy(std::byte* to, const std::byte* from, std::int64_t bytes) = 0;
  virtual void fill(std::span<std::byte> bytes, std::byte value) = 0;

  /// Whole pages of it may go back to the system, and be zeros when they are touched again.
  virtual void give_back(std::span<std::byte> /*bytes*/) {}
};

/// The memory of the processor. It has no state: all devices that are processors share it.
Memory& host_memory();

/// Calls write(tensor) with a dense tensor that the host can write: `to` itself, or a buffer that
/// becomes `to` afterwards.
template <class Write>
void write_on_host(Memory& memory, View to, const Write& write) {
  if (memory.on_host(to.bytes())) return write(to);
  CLEAVE_CHECK(to.dense(), "a copy of ", to_string(to.shape()), " that is not dense");
  std::vector<std::byte> copy(static_cast<std::size_t>(to.byte_count()));
  write(View(copy.data(), to.dtype(), to.shape()));
  memory.copy_in(to.bytes(), copy);
}

/// Calls read(tensor) with a dense tensor that the host can read: `from` itself, or a copy.
template <class Read>
void read_on_host(Memory& memory, ConstView from, const Read& read) {
  if (memory.on_host(from.bytes())) return read(from);
  CLEAVE_CHECK(from.dense(), "a copy of ", to_string(from.shape()), " that is not dense");
  std::vector<std::byte> copy(static_cast<std::size_t>(from.byte_count()));
  memory.copy_out(from.bytes(), copy);
  read(ConstView(copy.data(), from.dtype(), from.shape()));
}

}  // namespace cleave
