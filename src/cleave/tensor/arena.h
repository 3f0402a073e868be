#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cleave/tensor/memory.h"

namespace cleave {

/// A device's one block of its memory, mapped once, zeroed, 64-byte aligned. Every tensor of the
/// device lies in it, at an offset that was planned before the run.
///
/// acquire() and release() say what is in use. The peak is computed from them, so that it can
/// differ from the plan, and a plan that gives one byte to two owners is caught at run time too.
class Arena {
 public:
  /// The last `host_bytes` are the host's, wherever the others lie. Throws DoesNotFit if the memory
  /// has no room for it.
  explicit Arena(std::int64_t bytes, Memory& memory = host_memory(), std::int64_t host_bytes = 0);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  std::int64_t bytes() const { return bytes_; }
  Memory& memory() const { return memory_; }
  std::byte* at(std::int64_t offset) const { return base_ + offset; }
  bool contains(const std::byte* at) const { return at >= base_ && at < base_ + bytes_; }

  void acquire(std::int64_t offset, std::int64_t bytes);
  void release(std::int64_t offset);
  void release_all() { live_.clear(); }

  /// The highest end of anything acquired since the last reset_peak().
  std::int64_t peak() const { return peak_; }
  void reset_peak();

  /// Gives what lies outside of `used` back to the system: it is zero from then on, and costs
  /// nothing until it is touched. In the host's memory only.
  void give_back_all_but(std::vector<std::span<const std::byte>> used);

  /// Room for this many blocks in use at once, so that acquire() allocates nothing.
  void reserve_blocks(std::size_t count) { live_.reserve(count); }

 private:
  struct Block {
    std::int64_t offset;
    std::int64_t bytes;
  };

  Memory& memory_;
  std::byte* base_ = nullptr;
  std::int64_t bytes_ = 0;
  std::int64_t peak_ = 0;
  std::vector<Block> live_;  // by offset
};

}  // namespace cleave
