#pragma once

#include <filesystem>

#include "cleave/tensor/memory.h"

namespace cleave {

/// Memory whose bytes lie in files of a directory: each block is one, which has no name and is gone
/// with its block. The system writes it back and reads it as it has room.
class SpillMemory final : public Memory {
 public:
  explicit SpillMemory(std::filesystem::path directory) : directory_(std::move(directory)) {}

  bool on_host(const std::byte*) const override { return true; }

  /// Takes all of its room on the disk at once, so that a disk which is too full is noticed here.
  /// Throws UserError if the directory cannot be written, DoesNotFit if there is no room.
  std::byte* map(std::int64_t bytes, std::int64_t host_bytes) override;
  void unmap(std::byte* block, std::int64_t bytes) noexcept override;

  void copy_in(std::byte* to, std::span<const std::byte> from) override;
  void copy_out(const std::byte* from, std::span<std::byte> to) override;
  void copy(std::byte* to, const std::byte* from, std::int64_t bytes) override;
  void fill(std::span<std::byte> bytes, std::byte value) override;

 private:
  std::filesystem::path directory_;
};

}  // namespace cleave
