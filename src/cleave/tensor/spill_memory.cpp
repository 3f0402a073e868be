#include "cleave/tensor/spill_memory.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cleave/base/check.h"
#include "cleave/base/disk_blocks.h"
#include "cleave/base/units.h"

namespace cleave {
namespace {

/// Copies that begin or end within a block of the disk pass through a buffer of this size.
constexpr std::int64_t kBounceBytes = 4 << 20;

bool is_whole(std::int64_t number) {
  return number % kDiskBlock == 0;
}

}  // namespace

/// One block: a file, and the range of addresses that stands for it.
class SpillMemory::File {
 public:
  File(const std::filesystem::path& directory, std::int64_t bytes)
      : directory_(directory), bytes_(disk_blocks(bytes)) {
    std::string name = (directory / "cleave-spill-XXXXXX").string();
    descriptor_ = ::mkstemp(name.data());
    require(descriptor_ >= 0, "devices.spill ", directory.string(), ": ", std::strerror(errno),
            "; name a directory that can be written");
    ::unlink(name.c_str());
    try {
      take_room();
      const int flags = ::fcntl(descriptor_, F_GETFL);
      direct_ = ::fcntl(descriptor_, F_SETFL, flags | O_DIRECT) == 0;
      bounce_.reset(static_cast<std::byte*>(std::aligned_alloc(kDiskBlock, kBounceBytes)));
      void* range = mmap(nullptr, static_cast<std::size_t>(bytes_), PROT_NONE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (range == MAP_FAILED || bounce_ == nullptr)
        throw DoesNotFit(detail::concat("the system gives no addresses for ", format_bytes(bytes_),
                                        " in devices.spill ", directory.string()));
      base_ = static_cast<std::byte*>(range);
    } catch (...) {
      ::close(descriptor_);
      throw;
    }
  }
  ~File() {
    munmap(base_, static_cast<std::size_t>(bytes_));
    ::close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  std::byte* base() const { return base_; }
  bool contains(const std::byte* at) const { return at >= base_ && at < base_ + bytes_; }

  void write(std::int64_t at, std::span<const std::byte> from) {
    for_each_part(at, from.data(), std::ssize(from), [&](std::int64_t done, std::int64_t bytes) {
      write_all(at + done, from.data() + done, bytes);
    }, [&](std::int64_t done, std::int64_t bytes) {
      const Blocks around(at + done, bytes);
      // The rest of the first and of the last block belongs to others.
      if (!is_whole(at + done) || !is_whole(bytes)) {
        read_all(around.begin, bounce_.get(), kDiskBlock);
        read_all(around.end - kDiskBlock, bounce_.get() + around.bytes() - kDiskBlock, kDiskBlock);
      }
      std::memcpy(bounce_.get() + around.before, from.data() + done,
                  static_cast<std::size_t>(bytes));
      write_all(around.begin, bounce_.get(), around.bytes());
    });
  }

  void read(std::int64_t at, std::span<std::byte> to) {
    for_each_part(at, to.data(), std::ssize(to), [&](std::int64_t done, std::int64_t bytes) {
      read_all(at + done, to.data() + done, bytes);
    }, [&](std::int64_t done, std::int64_t bytes) {
      const Blocks around(at + done, bytes);
      read_all(around.begin, bounce_.get(), around.bytes());
      std::memcpy(to.data() + done, bounce_.get() + around.before,
                  static_cast<std::size_t>(bytes));
    });
  }

 private:
  /// The blocks of the disk that bytes lie in.
  struct Blocks {
    Blocks(std::int64_t at, std::int64_t bytes)
        : begin(at / kDiskBlock * kDiskBlock), end(disk_blocks(at + bytes)), before(at - begin) {}
    std::int64_t bytes() const { return end - begin; }
    std::int64_t begin;
    std::int64_t end;
    std::int64_t before;  ///< bytes of the first block that come before
  };
  struct Free {
    void operator()(std::byte* block) const { std::free(block); }
  };

  void take_room() const {
    const int error = ::posix_fallocate(descriptor_, 0, bytes_);
    if (error == 0) return;
    throw DoesNotFit(detail::concat(
        "devices.spill ", directory_.string(), " does not give the ", format_bytes(bytes_),
        " that a device's plan puts there: ", std::strerror(error),
        "; make room, name another directory, or set parallel.offload to \"none\""));
  }

  /// Whole blocks at whole addresses go straight between disk and memory; so does everything where
  /// the system's cache is in between. What is left bounces.
  template <class Straight, class Bounced>
  void for_each_part(std::int64_t at, const std::byte* memory, std::int64_t bytes,
                     const Straight& straight, const Bounced& bounced) const {
    if (!direct_) return straight(0, bytes);
    const bool whole = is_whole(at) && is_whole(reinterpret_cast<std::intptr_t>(memory));
    std::int64_t done = whole ? bytes / kDiskBlock * kDiskBlock : 0;
    if (done > 0) straight(0, done);
    while (done < bytes) {
      const std::int64_t room = kBounceBytes - (at + done) % kDiskBlock;
      const std::int64_t some = std::min(bytes - done, room);
      bounced(done, some);
      done += some;
    }
  }

  void write_all(std::int64_t at, const std::byte* from, std::int64_t bytes) const {
    while (bytes > 0) {
      const ssize_t wrote = ::pwrite(descriptor_, from, static_cast<std::size_t>(bytes), at);
      advance(wrote, "written", at, bytes);
      from += std::max<ssize_t>(wrote, 0);
    }
  }
  void read_all(std::int64_t at, std::byte* to, std::int64_t bytes) const {
    while (bytes > 0) {
      const ssize_t got = ::pread(descriptor_, to, static_cast<std::size_t>(bytes), at);
      advance(got, "read", at, bytes);
      to += std::max<ssize_t>(got, 0);
    }
  }
  void advance(ssize_t moved, const char* what, std::int64_t& at, std::int64_t& bytes) const {
    if (moved < 0 && errno == EINTR) return;
    if (moved <= 0)
      throw std::runtime_error(detail::concat(
          "devices.spill ", directory_.string(), " cannot be ", what, ": ",
          moved == 0 ? "its file has become shorter" : std::strerror(errno),
          "; the newest checkpoint is whole: mend the disk or name another directory, and resume"));
    at += moved;
    bytes -= moved;
  }

  std::filesystem::path directory_;
  std::int64_t bytes_;
  int descriptor_ = -1;
  bool direct_ = false;  ///< past the system's cache
  std::unique_ptr<std::byte, Free> bounce_;
  std::byte* base_ = nullptr;
};

SpillMemory::SpillMemory(std::filesystem::path directory) : directory_(std::move(directory)) {}

SpillMemory::~SpillMemory() = default;

std::byte* SpillMemory::map(std::int64_t bytes, std::int64_t /*host_bytes*/) {
  files_.push_back(std::make_unique<File>(directory_, bytes));
  return files_.back()->base();
}

void SpillMemory::unmap(std::byte* block, std::int64_t /*bytes*/) noexcept {
  std::erase_if(files_, [&](const auto& file) { return file->base() == block; });
}

SpillMemory::File& SpillMemory::file_of(const std::byte* at) {
  const auto found = std::ranges::find_if(files_, [&](const auto& f) { return f->contains(at); });
  CLEAVE_CHECK(found != files_.end(), "an address that is not on the disk");
  return **found;
}

void SpillMemory::copy_in(std::byte* to, std::span<const std::byte> from) {
  if (from.empty()) return;
  const std::lock_guard lock(mutex_);
  File& file = file_of(to);
  file.write(to - file.base(), from);
}

void SpillMemory::copy_out(const std::byte* from, std::span<std::byte> to) {
  if (to.empty()) return;
  const std::lock_guard lock(mutex_);
  File& file = file_of(from);
  file.read(from - file.base(), to);
}

void SpillMemory::copy(std::byte* to, const std::byte* from, std::int64_t bytes) {
  std::vector<std::byte> part(static_cast<std::size_t>(std::min(bytes, kBounceBytes)));
  for (std::int64_t done = 0; done < bytes; done += kBounceBytes) {
    const std::span some(part.data(),
                         static_cast<std::size_t>(std::min(bytes - done, kBounceBytes)));
    copy_out(from + done, some);
    copy_in(to + done, some);
  }
}

void SpillMemory::fill(std::span<std::byte> bytes, std::byte value) {
  const std::vector<std::byte> part(std::min<std::size_t>(bytes.size(), kBounceBytes), value);
  for (std::size_t done = 0; done < bytes.size(); done += part.size())
    copy_in(bytes.data() + done,
            std::span(part).first(std::min(part.size(), bytes.size() - done)));
}

}  // namespace cleave
