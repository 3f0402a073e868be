#include "cleave/base/file.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cleave/base/check.h"

namespace cleave {
namespace {

std::string_view remedy(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return "; free some space, or choose another directory";
    case EFBIG:
      return "; raise the limit on file sizes (ulimit -f)";
    case ELOOP:
      return "; it is a link, and what it points to is not ours to write: remove it";
    case EROFS:
    case EACCES:
    case EPERM:
      return "; choose a directory that you may write to";
    default:
      return "";
  }
}

[[noreturn]] void fail_write(const std::filesystem::path& path, std::string_view action) {
  const int error = errno;
  throw IoError(detail::concat("cannot ", action, " ", path.string(), ": ", std::strerror(error),
                               remedy(error)));
}

/// Runs a system call again when a signal cuts it short.
template <class Call>
auto retry(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

}  // namespace

File::File(int descriptor, std::filesystem::path path)
    : descriptor_(descriptor), path_(std::move(path)) {}

File File::open(const std::filesystem::path& path) {
  const int fd = retry([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC); });
  require(fd >= 0, "cannot read ", path.string(), ": ", std::strerror(errno));
  File file(fd, path);
  struct stat info {};
  require(::fstat(fd, &info) == 0, "cannot read ", path.string(), ": ", std::strerror(errno));
  require(!S_ISDIR(info.st_mode), "cannot read ", path.string(), ": it is a directory");
  return file;
}

File File::open_or_create(const std::filesystem::path& path) {
  constexpr int kFlags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW;
  const int fd = retry([&] { return ::open(path.c_str(), kFlags, 0666); });
  if (fd < 0) fail_write(path, "write");
  return {fd, path};
}

File File::create(const std::filesystem::path& path) {
  ::unlink(path.c_str());
  constexpr int kFlags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
  const int fd = retry([&] { return ::open(path.c_str(), kFlags, 0666); });
  if (fd < 0) fail_write(path, "write");
  return {fd, path};
}

File::File(File&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), path_(std::move(other.path_)) {}

File& File::operator=(File&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(path_, other.path_);
  return *this;
}

File::~File() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::int64_t File::size() const {
  struct stat info {};
  require(::fstat(descriptor_, &info) == 0, "cannot read ", path_.string(), ": ",
          std::strerror(errno));
  return info.st_size;
}

bool File::is_regular() const {
  struct stat info {};
  return ::fstat(descriptor_, &info) == 0 && S_ISREG(info.st_mode);
}

std::string File::read_to_end() const {
  constexpr std::size_t kMost = std::size_t{1} << 30;
  std::string text;
  std::array<char, 1 << 14> block{};
  for (;;) {
    const ssize_t count = retry([&] { return ::read(descriptor_, block.data(), block.size()); });
    require(count >= 0, "cannot read ", path_.string(), ": ", std::strerror(errno));
    if (count == 0) return text;
    text.append(block.data(), static_cast<std::size_t>(count));
    require(text.size() <= kMost, path_.string(), " has more than 1 GiB");
  }
}

void File::read(std::span<std::byte> bytes, std::int64_t offset) const {
  while (!bytes.empty()) {
    const ssize_t count =
        retry([&] { return ::pread(descriptor_, bytes.data(), bytes.size(), offset); });
    require(count >= 0, "cannot read ", path_.string(), ": ", std::strerror(errno));
    require(count > 0, path_.string(), " ends at byte ", offset, ", ", bytes.size(),
            " bytes too early; it was cut off");
    bytes = bytes.subspan(count);
    offset += count;
  }
}

void File::write(std::span<const std::byte> bytes, std::int64_t offset) {
  while (!bytes.empty()) {
    const ssize_t count =
        retry([&] { return ::pwrite(descriptor_, bytes.data(), bytes.size(), offset); });
    if (count < 0) fail_write(path_, "write");
    bytes = bytes.subspan(count);
    offset += count;
  }
}

void File::reserve(std::int64_t bytes) {
  if (bytes == 0) return;
  // Unlike most calls it returns the error; it falls back to writing zeros by itself.
  errno = retry([&] {
    const int error = ::posix_fallocate(descriptor_, 0, bytes);
    return error == EINTR ? (errno = EINTR, -1) : error;
  });
  if (errno != 0) fail_write(path_, "write");
}

void File::truncate(std::int64_t bytes) {
  if (retry([&] { return ::ftruncate(descriptor_, bytes); }) != 0) fail_write(path_, "shorten");
}

void File::sync() {
  if (retry([&] { return ::fsync(descriptor_); }) != 0) fail_write(path_, "write");
}

std::string read_text(const std::filesystem::path& path) {
  const File file = File::open(path);
  if (!file.is_regular()) return file.read_to_end();
  std::string text(file.size(), '\0');
  file.read(std::as_writable_bytes(std::span(text)), 0);
  return text;
}

void write_text_atomically(const std::filesystem::path& path, std::string_view text) {
  std::filesystem::path draft = path;
  draft += ".tmp";
  try {
    File file = File::create(draft);
    file.write(std::as_bytes(std::span(text)), 0);
    file.sync();
    if (::rename(draft.c_str(), path.c_str()) != 0) fail_write(path, "replace");
    sync_directory(path.has_parent_path() ? path.parent_path() : ".");
  } catch (...) {
    ::unlink(draft.c_str());
    throw;
  }
}

void sync_directory(const std::filesystem::path& path) {
  const int fd = retry([&] { return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
  if (fd < 0) fail_write(path, "write to");
  const int result = ::fsync(fd);
  const int error = errno;
  ::close(fd);
  errno = error;
  // Some file systems cannot sync a directory and say so; their renames are ordered anyway.
  if (result != 0 && error != EINVAL) fail_write(path, "write to");
}

}  // namespace cleave
