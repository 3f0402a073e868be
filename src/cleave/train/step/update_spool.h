#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "cleave/base/file.h"

namespace cleave::train {

/// What clients sent in a round, on the server's disk until the round closes: a file for each of
/// them, as they sent it. So what a round takes of memory does not grow with its clients.
class UpdateSpool {
 public:
  /// Empties the directory, and removes it in the end.
  explicit UpdateSpool(std::filesystem::path directory);
  ~UpdateSpool();
  UpdateSpool(const UpdateSpool&) = delete;
  UpdateSpool& operator=(const UpdateSpool&) = delete;

  /// Nobody has sent anything.
  void begin_round();

  /// The next client's file, of so many bytes, for which there is room from now on. Throws IoError.
  void open(std::int64_t bytes);
  /// The next bytes of the client whose file was opened in this place.
  void append(std::size_t arrival, std::span<const std::byte> bytes);

  /// Bytes from `offset` on of the client that came in this place.
  void read(std::size_t arrival, std::int64_t offset, std::span<std::byte> bytes) const;

  /// What clients sent in all rounds.
  std::int64_t taken_bytes() const { return taken_bytes_; }

 private:
  std::filesystem::path directory_;
  std::vector<File> files_;         ///< [arrival]
  std::vector<std::int64_t> ends_;  ///< [arrival] of what it has sent
  std::int64_t taken_bytes_ = 0;
};

}  // namespace cleave::train
