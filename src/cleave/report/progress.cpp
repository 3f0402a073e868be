#include "cleave/report/progress.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>
#include <unistd.h>

#include "cleave/base/units.h"

namespace cleave::report {
namespace {

constexpr double kRedrawEvery = 0.1;  // seconds
constexpr double kLineEvery = 5;
constexpr int kBarCells = 20;
constexpr const char* kToStart = "\r\x1b[K";  // back to the margin, erase the line

/// "812", "12.3k", "4.56M".
std::string rate(double value) {
  constexpr std::array<const char*, 4> kUnits = {"", "k", "M", "G"};
  std::size_t unit = 0;
  while (value >= 999.5 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  const int decimals = unit == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f}{}", value, decimals, kUnits[unit]);
}

std::string bar(double share, Ink ink) {
  const int full = static_cast<int>(std::floor(share * kBarCells));
  std::string cells;
  if (ink == Ink::Plain) {
    cells = fmt::format("[{:<{}}]", std::string(full, '='), kBarCells);
  } else {
    const auto repeat = [](int count) {
      std::string text;
      for (int i = 0; i < count; ++i) text += "━";
      return text;
    };
    cells = fmt::format(" \x1b[36m{}\x1b[90m{}\x1b[0m ", repeat(full), repeat(kBarCells - full));
  }
  return cells;
}

}  // namespace

Progress::Progress(std::int64_t first, std::int64_t steps, Terminal terminal, Style style,
                   Write write)
    : first_(first), steps_(steps), terminal_(terminal), style_(style), write_(std::move(write)) {}

void Progress::show(const ProgressStep& step, double now) {
  const bool always = !start_ || step.step >= steps_;
  if (!start_) start_ = now;
  const double pause = style_ == Style::Redraw ? kRedrawEvery : kLineEvery;
  if (!always && now - shown_ < pause) return;
  shown_ = now;
  if (style_ == Style::Lines) {
    write_(fmt::format("step {}/{}  {}\n", step.step, steps_, fields(step, 1 << 20)));
    return;
  }
  line_ = redraw(step, now);
  write_(kToStart + line_);
}

/// As many fields as fit, the most telling first.
std::string Progress::fields(const ProgressStep& s, int columns) const {
  std::array<std::string, 6> all = {
      fmt::format("loss {:.4f}", s.loss),
      rate(s.tokens_per_second) + " tokens/s",
      s.limit_share ? fmt::format("{:.0f}% of matmul limit", 100 * *s.limit_share) : "",
      fmt::format("grad norm {:.3g}", s.gradient_norm),
      fmt::format("lr {:.2e}", s.lr),
      format_bytes(s.memory_bytes)};
  std::string text;
  for (const std::string& field : all) {
    if (field.empty()) continue;
    const std::size_t gap = text.empty() ? 0 : 2;
    if (text.size() + gap + field.size() > static_cast<std::size_t>(std::max(columns, 0))) break;
    text += std::string(gap, ' ') + field;
  }
  return text;
}

std::string Progress::redraw(const ProgressStep& s, double now) const {
  const double share = steps_ > 0 ? static_cast<double>(s.step) / static_cast<double>(steps_) : 1;
  const std::string counter = fmt::format("step {}/{}", s.step, steps_);
  // The first step sets the clock, so it says nothing of the pace.
  const std::int64_t timed = s.step - first_ - 1;
  const std::string left = timed > 0 && s.step < steps_
                               ? "  " +
                                     format_seconds((now - *start_) / static_cast<double>(timed) *
                                                    static_cast<double>(steps_ - s.step)) +
                                     " left"
                               : "";
  const int columns = terminal_.columns - 1;  // the last column would wrap on some terminals
  const int fixed = static_cast<int>(counter.size() + left.size()) + kBarCells + 5;
  const bool with_bar = columns - fixed >= 12;  // room for the loss at least
  std::string line = counter;
  line += with_bar ? " " + bar(std::clamp(share, 0.0, 1.0), terminal_.ink) + "  " : "  ";
  const int used = static_cast<int>(counter.size()) + (with_bar ? kBarCells + 5 : 2);
  line += fields(s, columns - used - static_cast<int>(left.size()));
  if (with_bar) line += left;
  return with_bar ? line : line.substr(0, std::max(columns, 0));
}

void Progress::note(std::string_view text) {
  if (style_ == Style::Redraw) {
    write_(fmt::format("{}{}\n{}", kToStart, text, line_));
  } else {
    write_(fmt::format("{}\n", text));
  }
}

void Progress::finish() {
  if (!line_.empty()) write_("\n");
  line_.clear();
}

Progress::Style progress_style(int file_descriptor) {
  const char* kind = std::getenv("TERM");
  const bool able = kind != nullptr && std::string_view(kind) != "dumb";
  return able && ::isatty(file_descriptor) == 1 ? Progress::Style::Redraw : Progress::Style::Lines;
}

}  // namespace cleave::report
