#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/base/file.h"

namespace cleave::report {

/// CRC-32C (Castagnoli) of `bytes`.
std::uint32_t crc32c(std::string_view bytes);

/// A file of events as TensorBoard reads it: length-framed records with checksums, in each an Event
/// with scalars. Written by position, so that what is there is always whole records but the last.
class TensorBoardFile {
 public:
  using Scalars = std::vector<std::pair<std::string_view, double>>;  ///< tag, value

  /// A new file in `directory`, which is made if it is missing; `seconds` since 1970 go into its
  /// name, so that TensorBoard reads files in order. `first_step` > 0 tells it that the run goes on
  /// there: what older files have of that step and later no longer counts. Throws IoError.
  TensorBoardFile(const std::filesystem::path& directory, double seconds, std::int64_t first_step);

  /// Appends one event. Throws IoError if the disk is full.
  void write(std::int64_t step, double seconds, const Scalars& scalars);

  const std::filesystem::path& path() const { return file_.path(); }

 private:
  void append(std::string_view event);

  File file_;
  std::int64_t end_ = 0;
};

}  // namespace cleave::report
