#include "cleave/train/save/out_lock.h"

#include <array>
#include <cerrno>
#include <ctime>
#include <string>

#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include "cleave/base/check.h"

namespace cleave::train {
namespace {

namespace fs = std::filesystem;

/// "process 4711 on node7, since 2026-01-31 14:03:07 UTC".
std::string this_run() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  const std::time_t seconds = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  return fmt::format("process {} on {}, since {}-{:02}-{:02} {:02}:{:02}:{:02} UTC", ::getpid(),
                     host.data(), utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday, utc.tm_hour,
                     utc.tm_min, utc.tm_sec);
}

/// False if the file system has no locks.
bool lock(const File& file, const fs::path& out) {
  if (::flock(file.descriptor(), LOCK_EX | LOCK_NB) == 0) return true;
  if (errno != EWOULDBLOCK) return false;
  std::string owner(static_cast<std::size_t>(file.size()), '\0');
  file.read(std::as_writable_bytes(std::span(owner)), 0);
  throw UserError(detail::concat("train.out \"", out.string(), "\" is in use by ", owner,
                                 "; wait for it, end it, or choose another directory"));
}

}  // namespace

OutLock OutLock::take(const fs::path& out) {
  OutLock taken;
  taken.file_ = File::open_or_create(out / kLockFile);
  if (!lock(*taken.file_, out)) return taken;
  const std::string text = this_run();
  taken.file_->truncate(0);
  taken.file_->write(std::as_bytes(std::span(text)), 0);
  return taken;
}

void OutLock::require_free(const fs::path& out) {
  std::error_code error;
  if (!fs::is_regular_file(out / kLockFile, error)) return;
  lock(File::open(out / kLockFile), out);
}

}  // namespace cleave::train
