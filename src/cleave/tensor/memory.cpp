#include "cleave/tensor/memory.h"

#include <algorithm>
#include <cstring>

#include <sys/mman.h>
#include <unistd.h>

#include "cleave/base/check.h"
#include "cleave/base/units.h"

namespace cleave {
namespace {

class HostMemory final : public Memory {
 public:
  bool on_host(const std::byte*) const override { return true; }

  std::byte* map(std::int64_t bytes, std::int64_t) override {
    void* block = mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (block == MAP_FAILED) {
      throw DoesNotFit("the system does not give a device its " + format_bytes(bytes) +
                       "; use a smaller model or more devices");
    }
    // Only advice: without huge pages everything works, with more TLB misses.
    madvise(block, static_cast<std::size_t>(bytes), MADV_HUGEPAGE);
    return static_cast<std::byte*>(block);
  }
  void unmap(std::byte* block, std::int64_t bytes) noexcept override {
    munmap(block, static_cast<std::size_t>(bytes));
  }

  void copy_in(std::byte* to, std::span<const std::byte> from) override {
    if (!from.empty()) std::memcpy(to, from.data(), from.size());
  }
  void copy_out(const std::byte* from, std::span<std::byte> to) override {
    if (!to.empty()) std::memcpy(to.data(), from, to.size());
  }
  void copy(std::byte* to, const std::byte* from, std::int64_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, static_cast<std::size_t>(bytes));
  }
  void fill(std::span<std::byte> bytes, std::byte value) override {
    std::ranges::fill(bytes, value);
  }
  void give_back(std::span<std::byte> bytes) override {
    const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    const auto begin = (reinterpret_cast<std::uintptr_t>(bytes.data()) + page - 1) / page * page;
    const auto end = reinterpret_cast<std::uintptr_t>(bytes.data() + bytes.size()) / page * page;
    if (end > begin) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
  }
};

}  // namespace

Memory& host_memory() {
  static HostMemory memory;
  return memory;
}

}  // namespace cleave
