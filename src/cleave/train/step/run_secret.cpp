#include "cleave/train/step/run_secret.h"

#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <unistd.h>

#include "cleave/base/check.h"
#include "cleave/comm/together.h"

namespace cleave::train {
namespace {

namespace fs = std::filesystem;
using secure::Bytes32;

[[noreturn]] void fail_on(const fs::path& file, std::string_view what) {
  throw UserError(detail::concat(file.string(), " ", what, ": ", std::strerror(errno),
                                 "; masks and noise are drawn from it"));
}

/// The secret of an earlier part of the run, or a fresh one.
Bytes32 read_or_make(const fs::path& file) {
  Bytes32 secret;
  const int old = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (old >= 0) {
    const ssize_t count = ::read(old, secret.data(), secret.size());
    ::close(old);
    require(count == static_cast<ssize_t>(secret.size()), file.string(), " has ", count,
            " bytes, and a secret has ", secret.size(), "; it was damaged");
    return secret;
  }
  if (errno != ENOENT) fail_on(file, "cannot be read");
  secret = secure::random_bytes();
  fs::create_directories(file.parent_path());
  const int fresh = ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fresh < 0) fail_on(file, "cannot be made");
  const bool written =
      ::write(fresh, secret.data(), secret.size()) == static_cast<ssize_t>(secret.size()) &&
      ::fsync(fresh) == 0;
  if (::close(fresh) != 0 || !written) fail_on(file, "cannot be written");
  return secret;
}

}  // namespace

Bytes32 run_secret(const Config& config, comm::Communicator& world) {
  Bytes32 secret{};
  comm::together(world, [&] {
    if (world.rank() == 0) secret = read_or_make(fs::path(config.train.out) / "secret");
  });
  world.broadcast(std::as_writable_bytes(std::span(secret)), 0).wait();
  return secret;
}

}  // namespace cleave::train
