#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>

namespace cleave {

/// The machine refused while we ran: disk full, read-only file system, a failing disk. Not bad
/// usage, so it ends the program with code 1.
class IoError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// An open file, read and written by position, so that several processes may share it. Moves,
/// closes itself. Errors name the path, what was tried and the remedy.
class File {
 public:
  /// Throws UserError if it cannot be read.
  static File open(const std::filesystem::path& path);

  /// For writing at positions; keeps what is there, and does not follow a link. Throws IoError.
  static File open_or_create(const std::filesystem::path& path);

  /// The same, in place of whatever has that name. Throws IoError.
  static File create(const std::filesystem::path& path);

  int descriptor() const { return descriptor_; }

  /// False for pipes and devices, which have neither a size nor positions.
  bool is_regular() const;

  /// What a pipe gives until its other end is closed. Throws UserError.
  std::string read_to_end() const;

  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  ~File();

  std::int64_t size() const;
  const std::filesystem::path& path() const { return path_; }

  /// Fills `bytes` from `offset`. Throws UserError if the file ends before.
  void read(std::span<std::byte> bytes, std::int64_t offset) const;

  void write(std::span<const std::byte> bytes, std::int64_t offset);

  /// Grows to `bytes` with the disk space reserved, so that a full disk shows now, not later.
  void reserve(std::int64_t bytes);
  void truncate(std::int64_t bytes);
  void sync();

 private:
  File(int descriptor, std::filesystem::path path);

  int descriptor_;
  std::filesystem::path path_;
};

/// The whole file, or what a pipe gives. Throws UserError if it cannot be read.
std::string read_text(const std::filesystem::path& path);

/// Replaces the file in one instant: a crash leaves the old text or the new. Throws IoError.
void write_text_atomically(const std::filesystem::path& path, std::string_view text);

/// Makes renames and creations inside it survive a power cut.
void sync_directory(const std::filesystem::path& path);

}  // namespace cleave
