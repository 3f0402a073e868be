#pragma once

#include <chrono>

#include "cleave/tensor/memory.h"

namespace cleave::engine {

/// Returns at `until`, within a few microseconds: what a timer is late is not added to what is
/// emulated.
void sleep_exactly_until(std::chrono::steady_clock::time_point until);

/// What OUT and IN of an emulated device move to: copies take as long as a link does, and carry
/// nothing.
///
/// An address is a place in a range that is reserved and cannot be read.
class EmulatedMemory final : public Memory {
 public:
  explicit EmulatedMemory(double seconds_per_byte) : seconds_per_byte_(seconds_per_byte) {}

  bool on_host(const std::byte*) const override { return false; }

  std::byte* map(std::int64_t bytes, std::int64_t host_bytes) override;
  void unmap(std::byte* block, std::int64_t bytes) noexcept override;

  void copy_in(std::byte* to, std::span<const std::byte> from) override;
  void copy_out(const std::byte* from, std::span<std::byte> to) override;
  void copy(std::byte* to, const std::byte* from, std::int64_t bytes) override;
  void fill(std::span<std::byte> /*bytes*/, std::byte /*value*/) override {}

 private:
  double seconds_per_byte_;
};

}  // namespace cleave::engine
