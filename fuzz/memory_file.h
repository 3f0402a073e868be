#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

namespace cleave::fuzz {

/// Bytes under a path of the file system, in memory.
class MemoryFile {
 public:
  MemoryFile(const std::uint8_t* data, std::size_t size) : descriptor_(make()) { fill(data, size); }
  ~MemoryFile() { unused().push_back(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  /// The file has these bytes and no others from now on.
  void fill(const std::uint8_t* data, std::size_t size) {
    if (::ftruncate(descriptor_, static_cast<off_t>(size)) != 0) std::abort();
    for (std::size_t done = 0; done < size;) {
      const ssize_t count =
          ::pwrite(descriptor_, data + done, size - done, static_cast<off_t>(done));
      if (count <= 0) std::abort();
      done += static_cast<std::size_t>(count);
    }
  }

  std::filesystem::path path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  /// Files wait here for their next bytes: to make and remove one takes twice as long as to fill
  /// it.
  static std::vector<int>& unused() {
    static std::vector<int> descriptors;
    return descriptors;
  }

  static int make() {
    if (unused().empty()) {
      const int made = ::memfd_create("fuzz", 0);
      if (made < 0) std::abort();
      return made;
    }
    const int last = unused().back();
    unused().pop_back();
    return last;
  }

  int descriptor_;
};

}  // namespace cleave::fuzz
