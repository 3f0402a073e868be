#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

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
  double wait = 0;                ///< seconds of it that device 0 was at messages
  double epochs = 0;              ///< through the training data, since step 0
  std::int64_t memory_bytes = 0;  ///< the highest peak of all devices
  std::optional<double> validation_loss = {};
  std::optional<double> accuracy = {};  ///< of the validation, for classifiers
};

/// What befell a run between two steps: a device joined, left or was lost, or there is a new plan.
struct RunEvent {
  std::string kind;
  std::int64_t step = 0;  ///< updates done by then, though some may be done again
  std::string text;       ///< a sentence
  double time = 0;        ///< seconds since 1970; 0: nobody knows
};

/// What the log has of it: a line of JSON, with its end.
std::string line_of(const StepMetrics& metrics);

/// A file of JSON lines, one per step and event, that never ends in half a line.
class MetricsLog {
 public:
  /// Continues after `step`: keeps events and the whole lines of earlier steps and cuts off the
  /// rest, such as what a crash left. 0 keeps events alone. Throws IoError.
  explicit MetricsLog(const std::filesystem::path& path, std::int64_t step = 0);

  /// Keeps every whole line.
  static constexpr std::int64_t kAllSteps = std::numeric_limits<std::int64_t>::max();

  /// Appends one line. Throws IoError if the disk is full, with nothing of the line left behind.
  void write(const StepMetrics& metrics);
  void write(const RunEvent& event);

  /// Whether a line of the log is of an event.
  static bool is_event(std::string_view line);

 private:
  void append(const std::string& line);

  File file_;
  std::int64_t end_ = 0;
};

}  // namespace cleave::train
