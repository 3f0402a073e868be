#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

#include "cleave/base/file.h"

namespace cleave::train {

/// The file in train.out that a run keeps locked. It stays when the run has ended, or died: the
/// system takes the lock away.
inline constexpr std::string_view kLockFile = ".lock";

/// Keeps others from writing to the same train.out, on this machine and on file systems that lock
/// across machines.
class OutLock {
 public:
  OutLock() = default;

  /// Throws UserError that names process, host and start of the run that has it. Where the file
  /// system knows no locks the run goes on without.
  static OutLock take(const std::filesystem::path& out);

  /// Throws the same UserError if somebody has it; touches nothing.
  static void require_free(const std::filesystem::path& out);

 private:
  std::optional<File> file_;
};

}  // namespace cleave::train
