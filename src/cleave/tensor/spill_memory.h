#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <vector>

#include "cleave/tensor/memory.h"

namespace cleave {

/// Memory whose bytes lie in files of a directory: each block is one, which has no name and is gone
/// with its block.
///
/// An address is a place in a range that is reserved and cannot be read, as an accelerator's is.
/// Files are read and written past the system's cache where the directory allows it, so that what
/// lies here takes no memory, and copies between whole blocks of kDiskBlock go without another.
class SpillMemory final : public Memory {
 public:
  explicit SpillMemory(std::filesystem::path directory);
  ~SpillMemory() override;

  bool on_host(const std::byte*) const override { return false; }

  /// Takes all of its room on the disk at once, so that a disk which is too full is noticed here.
  /// Throws UserError if the directory cannot be written, DoesNotFit if there is no room.
  std::byte* map(std::int64_t bytes, std::int64_t host_bytes) override;
  void unmap(std::byte* block, std::int64_t bytes) noexcept override;

  /// All of these throw std::runtime_error, in one sentence, if the disk fails.
  void copy_in(std::byte* to, std::span<const std::byte> from) override;
  void copy_out(const std::byte* from, std::span<std::byte> to) override;
  void copy(std::byte* to, const std::byte* from, std::int64_t bytes) override;
  void fill(std::span<std::byte> bytes, std::byte value) override;

 private:
  class File;
  File& file_of(const std::byte* at);

  std::filesystem::path directory_;
  std::vector<std::unique_ptr<File>> files_;
  std::mutex mutex_;  ///< one thread moves while another may save
};

}  // namespace cleave
