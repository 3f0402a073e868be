#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "cleave/report/terminal.h"

namespace cleave::report {

/// One step as the progress line shows it.
struct ProgressStep {
  std::int64_t step = 0;  ///< steps done
  double loss = 0;
  double gradient_norm = 0;
  double lr = 0;
  double tokens = 0;                         ///< in the step
  double seconds = 0;                        ///< that the step took
  std::optional<double> limit_seconds = {};  ///< that its matmuls alone would take
  std::int64_t memory_bytes = 0;             ///< the highest peak of all devices
  double epochs = 0;                         ///< through the data; 0: not known
  bool last = false;                         ///< the run ends after it
};

/// A mean that follows what is measured over some seconds, so that single steps do not make numbers
/// jump.
class SmoothedSeconds {
 public:
  void note(double seconds);
  double value() const { return value_; }

 private:
  double value_ = 0;
  std::int64_t count_ = 0;
};

/// Shows a run while it goes on: on a terminal one line that is drawn over itself, elsewhere plain
/// lines, of which the first and the last are always there and the others seldom enough for a log.
class Progress {
 public:
  using Write = std::function<void(std::string_view text)>;
  using Look = std::function<Terminal()>;
  enum class Style : std::uint8_t { Redraw, Lines };

  /// `look` says what the terminal is like now: people
  /// change its width. `write` gets whole pieces, to be flushed.
  Progress(std::int64_t steps, Look look, Style style, Write write);

  /// `now` is seconds on any clock; `time_of_day` begins a plain line.
  void show(const ProgressStep& step, double now, std::string_view time_of_day = "");

  /// A line of its own, above the progress line.
  void note(std::string_view text);

  /// Ends the progress line, so that what follows starts on a new one.
  void finish();

 private:
  std::string fields(const ProgressStep& step, int columns) const;
  std::string redraw(const ProgressStep& step, const Terminal& terminal) const;
  std::string left(const ProgressStep& step) const;
  std::string to_start(const Terminal& terminal) const;

  std::int64_t steps_;
  Look look_;
  Style style_;
  Write write_;
  std::optional<double> start_;
  double last_ = 0;       // when the last step was done
  double shown_ = 0;      // when a step was shown last
  SmoothedSeconds step_;  // what steps take by themselves
  SmoothedSeconds pace_;  // from one step to the next: with evaluations and saving
  std::string line_;      // on the screen now
  std::size_t line_columns_ = 0;
};

/// Redraw on a terminal that can, lines anywhere else.
Progress::Style progress_style(int file_descriptor);

}  // namespace cleave::report
