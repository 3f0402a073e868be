#include "cleave/report/timeline_text.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <numeric>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cleave/report/palette.h"

namespace cleave::report {

namespace {

/// A colour in use: paint and chunk.
using Shade = std::pair<Paint, int>;

constexpr Shade kIdle{Paint::Wait, 0};

struct Cell {
  Shade shade = kIdle;
  char text = ' ';
};

bool is_drawn(const plan::Span& span) {
  return span.kind != plan::SpanKind::Transfer && span.kind != plan::SpanKind::Wait &&
         span.end > span.begin;
}

/// The shortest box, or a half, third or quarter of it, if all boxes begin and end at multiples of
/// that; else 0.
double time_unit(const plan::Trace& trace, double shortest) {
  const auto whole = [](double value) { return std::abs(value - std::round(value)) < 1e-6; };
  for (int parts = 1; parts <= 4; ++parts) {
    const double unit = shortest / parts;
    const bool fits = std::ranges::all_of(trace.spans, [&](const plan::Span& span) {
      return !is_drawn(span) || (whole(span.begin / unit) && whole(span.end / unit));
    });
    if (fits) return unit;
  }
  return 0;
}

class Picture {
 public:
  Picture(const Timeline& timeline, const Terminal& terminal)
      : timeline_(timeline),
        ink_(terminal.ink),
        chunk_of_(chunk_of_stage(timeline.trace)),
        terminal_columns_(terminal.columns) {
    for (int chunk : chunk_of_) chunks_ = std::max(chunks_, chunk + 1);
    gutter_ = fmt::format("{}", timeline.trace.devices - 1).size() + 2;
    choose_scale(std::max(terminal.columns - static_cast<int>(gutter_), 10));
  }

  std::string draw() {
    std::string out = fmt::format("{}: {}\n", timeline_.trace.name, headline(timeline_));
    std::vector<std::vector<Cell>> rows = cells();
    for (const plan::Span& span : timeline_.trace.spans) {
      if (labelled_ && is_drawn(span)) write_label(span, rows.at(span.device));
    }
    for (std::size_t device = 0; device < rows.size(); ++device) {
      out += fmt::format("{:>{}}  ", device, gutter_ - 2);
      append_row(out, rows[device]);
      out += '\n';
    }
    return out += legend() + '\n';
  }

 private:
  std::string label_of(const plan::Span& span) const {
    const bool compute = span.kind == plan::SpanKind::Compute;
    std::string text = compute ? std::to_string(span.instruction.microbatch) : "";
    return ink_ != Ink::Plain && compute ? text : letter(shade_of(span)) + text;
  }

  /// A whole number of characters per time unit where there is one: boxes of equal length then look
  /// equal. Never wider than the labels need.
  void choose_scale(int columns) {
    const double makespan = timeline_.summary.makespan;
    if (makespan <= 0) return;
    double enough = 1 / makespan;
    double shortest = makespan;
    for (const plan::Span& span : timeline_.trace.spans) {
      if (!is_drawn(span)) continue;
      const double length = span.end - span.begin;
      const std::size_t room = label_of(span).size() + (ink_ == Ink::Plain ? 1 : 2);
      enough = std::max(enough, static_cast<double>(room) / length);
      shortest = std::min(shortest, length);
    }
    scale_ = std::min(columns / makespan, enough);
    const double unit = time_unit(timeline_.trace, shortest);
    const double per_unit = std::floor(columns * unit / makespan + 1e-9);
    if (per_unit >= 1) scale_ = std::min(per_unit, std::ceil(enough * unit - 1e-9)) / unit;
    columns_ = static_cast<int>(std::ceil(makespan * scale_ - 1e-6));
    labelled_ = shortest * scale_ > 1.9;  // numbers on a few long boxes only would mislead
  }

  Shade shade_of(const plan::Span& span) const {
    const int stage = span.instruction.stage;
    const bool compute = span.kind == plan::SpanKind::Compute && stage >= 0;
    return {paint_of(span), compute ? chunk_of_[stage] : 0};
  }

  /// Each cell has the shade that takes most of its time, if it is not idle for most of it.
  std::vector<std::vector<Cell>> cells() {
    const std::vector<double> shares = time_shares();
    std::vector<std::vector<Cell>> rows(timeline_.trace.devices, std::vector<Cell>(columns_));
    auto own = shares.begin();
    for (std::vector<Cell>& row : rows) {
      for (Cell& cell : row) {
        const auto most = std::max_element(own, own + shades());
        const int index = static_cast<int>(most - own);
        if (std::accumulate(own, own + shades(), 0.0) >= 0.5) {
          cell.shade = {kPaints[index / chunks_], index % chunks_};
          used_.insert(cell.shade);
        }
        cell.text = ink_ == Ink::Plain ? letter(cell.shade) : ' ';
        own += shades();
      }
    }
    return rows;
  }

  int shades() const { return static_cast<int>(kPaints.size()) * chunks_; }

  /// [device][column][shade] -> share of the character's time.
  std::vector<double> time_shares() const {
    std::vector<double> shares(static_cast<std::size_t>(timeline_.trace.devices) * columns_ *
                               shades());
    for (const plan::Span& span : timeline_.trace.spans) {
      if (!is_drawn(span)) continue;
      const auto [paint, chunk] = shade_of(span);
      const double from = span.begin * scale_;
      const double to = std::min<double>(span.end * scale_, columns_);
      for (int column = static_cast<int>(from); column < to; ++column) {
        const std::size_t cell = static_cast<std::size_t>(span.device) * columns_ + column;
        shares[cell * shades() + static_cast<int>(paint) * chunks_ + chunk] +=
            std::min(to, column + 1.0) - std::max<double>(from, column);
      }
    }
    return shares;
  }

  char letter(Shade shade) const {
    const char upper = letter_of(shade.first);
    return shade.second % 2 == 0 ? upper : static_cast<char>(std::tolower(upper));
  }

  void write_label(const plan::Span& span, std::vector<Cell>& row) const {
    const std::string label = label_of(span);
    const auto from = static_cast<std::size_t>(std::lround(span.begin * scale_));
    const auto to = std::min(row.size(), static_cast<std::size_t>(std::lround(span.end * scale_)));
    if (from + label.size() > to || (ink_ == Ink::Plain && label.size() < 2)) return;
    for (std::size_t i = from; i < to; ++i) {
      row[i].text = i - from < label.size() ? label[i - from] : ' ';
    }
  }

  void append_row(std::string& out, const std::vector<Cell>& row) const {
    Shade current = kIdle;
    for (const Cell& cell : row) {
      if (ink_ != Ink::Plain && cell.shade != current) out += escape(cell.shade);
      current = cell.shade;
      out += cell.text;
    }
    if (ink_ != Ink::Plain && current != kIdle) out += escape(kIdle);
  }

  std::string escape(Shade shade) const {
    if (shade == kIdle) return "\x1b[0m";
    const Colour colour = colour_of(shade.first, shade.second, chunks_);
    const int text = text_on(colour) == Colour{255, 255, 255} ? 231 : 16;
    if (ink_ == Ink::TrueColour) {
      return fmt::format("\x1b[48;2;{};{};{};38;5;{}m", colour.red, colour.green, colour.blue,
                         text);
    }
    // The nearest of the 6 x 6 x 6 colours at 0, 95, 135, 175, 215, 255.
    const auto cube = [](int value) { return value < 48 ? 0 : std::max(1, (value - 35) / 40); };
    const int index = 36 * cube(colour.red) + 6 * cube(colour.green) + cube(colour.blue);
    return fmt::format("\x1b[48;5;{};38;5;{}m", 16 + index, text);
  }

  /// Entries in lines no longer than the terminal, each under the picture.
  std::string legend() const {
    const std::string margin(gutter_, ' ');
    std::string out = margin;
    std::size_t used = gutter_;
    const auto add = [&](const std::string& entry, std::size_t columns) {
      const std::size_t gap = used > gutter_ ? kLegendGap : 0;
      if (gap > 0 && used + gap + columns > static_cast<std::size_t>(terminal_columns_)) {
        out += '\n' + margin;
        used = gutter_;
      } else {
        out.append(gap, ' ');
        used += gap;
      }
      out += entry;
      used += columns;
    };
    for (const Shade& shade : used_) {
      std::string text(name_of(shade.first));
      if (shade.second > 0) text = fmt::format("chunk {}", shade.second);
      if (ink_ == Ink::Plain) {
        add(fmt::format("{} {}", letter(shade), text), text.size() + 2);
      } else {
        add(escape(shade) + "  " + escape(kIdle) + ' ' + text, text.size() + 3);
      }
    }
    if (ink_ == Ink::Plain) add(". idle", 6);
    return out;
  }

  static constexpr std::size_t kLegendGap = 3;

  const Timeline& timeline_;
  Ink ink_;
  std::vector<int> chunk_of_;
  int chunks_ = 1;
  std::size_t gutter_ = 0;
  double scale_ = 1;
  int columns_ = 0;
  int terminal_columns_;
  bool labelled_ = false;
  std::set<Shade> used_;
};

}  // namespace

std::string timeline_text(const Timeline& timeline, const Terminal& terminal) {
  return Picture(timeline, terminal).draw();
}

}  // namespace cleave::report
