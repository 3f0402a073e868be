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
  double tokens_per_second = 0;
  std::optional<double> limit_share = {};  ///< of what the matmuls alone allow; 1 is the limit
  std::int64_t memory_bytes = 0;           ///< the highest peak of all devices
};

/// Shows a run while it goes on: on a terminal one line that is drawn over itself, elsewhere plain
/// lines, of which the first and the last are always there and the others seldom enough for a log.
class Progress {
 public:
  using Write = std::function<void(std::string_view text)>;
  enum class Style : std::uint8_t { Redraw, Lines };

  /// `first` steps were done before this run; `write` gets whole pieces, to be flushed.
  Progress(std::int64_t first, std::int64_t steps, Terminal terminal, Style style, Write write);

  /// `now` is seconds on any clock.
  void show(const ProgressStep& step, double now);

  /// A line of its own, above the progress line.
  void note(std::string_view text);

  /// Ends the progress line, so that what follows starts on a new one.
  void finish();

 private:
  std::string fields(const ProgressStep& step, int columns) const;
  std::string redraw(const ProgressStep& step, double now) const;

  std::int64_t first_;
  std::int64_t steps_;
  Terminal terminal_;
  Style style_;
  Write write_;
  std::optional<double> start_;
  double shown_ = 0;
  std::string line_;  // on the screen now
};

/// Redraw on a terminal that can, lines anywhere else.
Progress::Style progress_style(int file_descriptor);

}  // namespace cleave::report
