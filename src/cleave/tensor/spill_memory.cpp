#include "cleave/tensor/spill_memory.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cleave/base/check.h"
#include "cleave/base/units.h"

namespace cleave {
namespace {

/// A file that is closed when its mapping is made, and has no name.
class SpillFile {
 public:
  explicit SpillFile(const std::filesystem::path& directory) {
    std::string name = (directory / "cleave-spill-XXXXXX").string();
    descriptor_ = ::mkstemp(name.data());
    require(descriptor_ >= 0, "devices.spill ", directory.string(), ": ", std::strerror(errno),
            "; name a directory that can be written");
    ::unlink(name.c_str());
  }
  ~SpillFile() { ::close(descriptor_); }
  SpillFile(const SpillFile&) = delete;
  SpillFile& operator=(const SpillFile&) = delete;

  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

}  // namespace

std::byte* SpillMemory::map(std::int64_t bytes, std::int64_t /*host_bytes*/) {
  const SpillFile file(directory_);
  if (const int error = ::posix_fallocate(file.descriptor(), 0, bytes); error != 0) {
    throw DoesNotFit(detail::concat(
        "devices.spill ", directory_.string(), " does not give the ", format_bytes(bytes),
        " that a device's plan puts there: ", std::strerror(error),
        "; make room, name another directory, or set parallel.offload to \"none\""));
  }
  void* block = mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE, MAP_SHARED,
                     file.descriptor(), 0);
  if (block == MAP_FAILED)
    throw DoesNotFit(detail::concat("devices.spill ", directory_.string(), " cannot be mapped: ",
                                    std::strerror(errno), "; name another directory"));
  return static_cast<std::byte*>(block);
}

void SpillMemory::unmap(std::byte* block, std::int64_t bytes) noexcept {
  munmap(block, static_cast<std::size_t>(bytes));
}

void SpillMemory::copy_in(std::byte* to, std::span<const std::byte> from) {
  host_memory().copy_in(to, from);
}

void SpillMemory::copy_out(const std::byte* from, std::span<std::byte> to) {
  host_memory().copy_out(from, to);
}

void SpillMemory::copy(std::byte* to, const std::byte* from, std::int64_t bytes) {
  host_memory().copy(to, from, bytes);
}

void SpillMemory::fill(std::span<std::byte> bytes, std::byte value) {
  host_memory().fill(bytes, value);
}

}  // namespace cleave
