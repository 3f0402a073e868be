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
constexpr double kMemory = 10;  // seconds over which rates are smoothed
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

/// "0.0031", "0.35", "12.3": enough digits to see it move.
std::string position(double epochs) {
  return epochs < 0.1 ? fmt::format("{:.2g}", epochs) : fmt::format("{:.2f}", epochs);
}

std::string repeated(std::string_view cell, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += cell;
  return text;
}

/// What is done and what is not differ in shape, not in colour alone.
std::string bar(double share, Ink ink) {
  const int full = static_cast<int>(std::floor(share * kBarCells));
  if (ink == Ink::Plain) return fmt::format("[{:<{}}]", std::string(full, '='), kBarCells);
  return fmt::format(" \x1b[36m{}\x1b[90m{}\x1b[0m ", repeated("━", full),
                     repeated("╌", kBarCells - full));
}

/// Columns of a text without its colours.
std::size_t visible_columns(std::string_view text) {
  std::size_t columns = 0;
  bool escape = false;
  for (const char c : text) {
    if (c == '\x1b') escape = true;
    const bool starts = (static_cast<unsigned char>(c) & 0xc0) != 0x80;
    if (!escape && starts) ++columns;
    if (escape && c == 'm') escape = false;
  }
  return columns;
}

}  // namespace

void SmoothedSeconds::note(double seconds) {
  ++count_;
  const double weight = std::max(1 / static_cast<double>(count_), 1 - std::exp(-seconds / kMemory));
  value_ += weight * (seconds - value_);
}

Progress::Progress(std::int64_t steps, Look look, Style style, Write write)
    : steps_(steps), look_(std::move(look)), style_(style), write_(std::move(write)) {}

void Progress::show(const ProgressStep& step, double now, std::string_view time_of_day) {
  const bool always = !start_ || step.last || step.step >= steps_;
  // The first step sets the clock, so it says nothing of the pace.
  if (start_) pace_.note(now - last_);
  if (!start_) start_ = now;
  last_ = now;
  step_.note(step.seconds);
  const double pause = style_ == Style::Redraw ? kRedrawEvery : kLineEvery;
  if (!always && now - shown_ < pause) return;
  shown_ = now;
  if (style_ == Style::Lines) {
    write_(fmt::format("{}{}step {}/{}  {}{}\n", time_of_day, time_of_day.empty() ? "" : "  ",
                       step.step, steps_, fields(step, 1 << 20), left(step)));
    return;
  }
  const Terminal terminal = look_();
  const std::string start = to_start(terminal);
  line_ = redraw(step, terminal);
  line_columns_ = visible_columns(line_);
  write_(start + line_);
}

/// As many fields as fit, the most telling first.
std::string Progress::fields(const ProgressStep& s, int columns) const {
  // A limit that is beaten was measured on a machine that was busy, and says nothing.
  const double share = s.limit_seconds ? *s.limit_seconds / step_.value() : 2;
  std::array<std::string, 8> all = {
      fmt::format("loss {:.4f}", s.loss),
      rate(s.tokens / step_.value()) + " tokens/s",
      s.epochs > 0 ? "epoch " + position(s.epochs) : "",
      pace_.value() > 0 ? fmt::format("{:.3g} steps/s", 1 / pace_.value()) : "",
      share <= 1 ? fmt::format("{:.0f}% of matmul limit", 100 * share) : "",
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

std::string Progress::left(const ProgressStep& s) const {
  if (pace_.value() <= 0 || s.last || s.step >= steps_) return "";
  return "  " + format_seconds(pace_.value() * static_cast<double>(steps_ - s.step)) + " left";
}

std::string Progress::redraw(const ProgressStep& s, const Terminal& terminal) const {
  const double share = steps_ > 0 ? static_cast<double>(s.step) / static_cast<double>(steps_) : 1;
  const int columns = terminal.columns - 1;  // the last column would wrap on some terminals
  std::string counter = fmt::format("step {}/{}", s.step, steps_);
  // Half a number would be another number.
  if (static_cast<int>(counter.size()) > columns) counter = fmt::format("step {}", s.step);
  const std::string rest = left(s);
  const int fixed = static_cast<int>(counter.size() + rest.size()) + kBarCells + 5;
  const bool with_bar = columns - fixed >= 12;  // room for the loss at least
  std::string line = counter;
  line += with_bar ? " " + bar(std::clamp(share, 0.0, 1.0), terminal.ink) + "  " : "  ";
  const int used = static_cast<int>(counter.size()) + (with_bar ? kBarCells + 5 : 2);
  line += fields(s, columns - used - static_cast<int>(rest.size()));
  if (with_bar) line += rest;
  return with_bar ? line : line.substr(0, std::max(columns, 0));
}

/// Back to the margin of the first row that the line takes now, and erases it: a terminal that was
/// made narrower has wrapped it.
std::string Progress::to_start(const Terminal& terminal) const {
  const auto columns = static_cast<std::size_t>(std::max(terminal.columns, 1));
  const std::size_t rows = line_columns_ == 0 ? 0 : (line_columns_ - 1) / columns;
  if (rows == 0) return kToStart;
  return fmt::format("\r\x1b[{}A\x1b[J", rows);
}

void Progress::note(std::string_view text) {
  if (style_ == Style::Redraw) {
    write_(fmt::format("{}{}\n{}", to_start(look_()), text, line_));
  } else {
    write_(fmt::format("{}\n", text));
  }
}

void Progress::finish() {
  if (!line_.empty()) write_("\n");
  line_.clear();
  line_columns_ = 0;
}

Progress::Style progress_style(int file_descriptor) {
  const char* kind = std::getenv("TERM");
  const bool able = kind != nullptr && std::string_view(kind) != "dumb";
  return able && ::isatty(file_descriptor) == 1 ? Progress::Style::Redraw : Progress::Style::Lines;
}

}  // namespace cleave::report
