#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "cleave/base/file.h"

namespace cleave::train {

/// What is worth knowing of one step.
struct StepMetrics {
  std::int64_t step = 0;  ///< updates done, from 1
  double loss = 0;
  double gradient_norm = 0;  ///< before clipping
  double lr = 0;
  double tokens_per_second = 0;
  double seconds = 0;
  std::int64_t memory_bytes = 0;  ///< the highest peak of all devices
  std::optional<double> validation_loss = {};
};

/// A file of JSON lines, one per step, that never ends in half a line.
class MetricsLog {
 public:
  /// Continues after `step`: keeps the whole lines of earlier steps and cuts off the rest, such as
  /// what a crash left. 0 starts anew. Throws IoError.
  explicit MetricsLog(const std::filesystem::path& path, std::int64_t step = 0);

  /// Appends one line. Throws IoError if the disk is full, with nothing of the line left behind.
  void write(const StepMetrics& metrics);

 private:
  File file_;
  std::int64_t end_ = 0;
};

}  // namespace cleave::train
