#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cleave/base/check.h"
#include "cleave/base/file.h"
#include "cleave/comm/tcp/identity.h"

namespace cleave::comm {
namespace {

namespace fs = std::filesystem;

constexpr const char* kKeyFile = "key.pem";

[[noreturn]] void throw_io(const char* what, const fs::path& file) {
  throw IoError(detail::concat("cannot ", what, " ", file.string(), ": ", std::strerror(errno)));
}

void write_private(const fs::path& file, const std::string& text, mode_t mode) {
  const fs::path temporary = file.string() + ".new";
  fs::remove(temporary);
  const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (fd < 0) throw_io("write", temporary);
  const ssize_t written = write(fd, text.data(), text.size());
  const bool whole = written == static_cast<ssize_t>(text.size()) && fsync(fd) == 0;
  close(fd);
  if (!whole) throw_io("write", temporary);
  fs::rename(temporary, file);
}

/// As long as it lives no other program has the same directory.
class DirectoryLock {
 public:
  explicit DirectoryLock(const fs::path& directory)
      : descriptor_(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    if (descriptor_ < 0 || flock(descriptor_, LOCK_EX) != 0) throw_io("lock", directory);
  }
  ~DirectoryLock() { close(descriptor_); }
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

 private:
  int descriptor_;
};

}  // namespace

// The key comes last: where it is, the others are.
void store_identity(const Identity& identity, const fs::path& directory) {
  fs::create_directories(directory);
  write_private(directory / "authority.pem", identity.authority, 0644);
  write_private(directory / "certificate.pem", identity.certificate, 0644);
  write_private(directory / kKeyFile, identity.key, 0600);
}

bool is_identity_in(const fs::path& directory) {
  return fs::exists(directory / kKeyFile);
}

Identity load_identity(const fs::path& directory) {
  const fs::path key = directory / kKeyFile;
  struct stat status {};
  if (stat(key.c_str(), &status) != 0) throw_io("read", key);
  require((status.st_mode & 077) == 0, "others may read the private key ", key.string(),
          "; chmod 600 it, or make a new one if it may have been copied");
  Identity identity{.key = read_text(key),
                    .certificate = read_text(directory / "certificate.pem"),
                    .authority = read_text(directory / "authority.pem")};
  require(is_pair(identity), "certificate.pem in ", directory.string(),
          " is not of key.pem beside it; put both back from one copy");
  return identity;
}

Identity kept_identity(const fs::path& directory, const std::function<Identity()>& make,
                       const std::function<bool(const Identity&)>& is_good) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) throw IoError("cannot make " + directory.string() + ": " + error.message());
  const DirectoryLock lock(directory);
  if (!is_identity_in(directory) || !is_good(load_identity(directory))) {
    const Identity identity = make();
    fs::remove(directory / kKeyFile);  // it is not of the certificate that comes next
    store_identity(identity, directory);
  }
  return load_identity(directory);
}

}  // namespace cleave::comm
