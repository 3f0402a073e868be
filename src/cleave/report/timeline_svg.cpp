#include "cleave/report/timeline_svg.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cleave/base/check.h"
#include "cleave/report/markup.h"
#include "cleave/report/palette.h"

namespace cleave::report {

namespace {

constexpr double kLeft = 46;
constexpr double kRight = 132;
constexpr double kTop = 14;
constexpr double kTitle = 30;
constexpr double kPanelGap = 16;
constexpr double kDigit = 6.1;  // width of a digit at 10 pixels

constexpr std::string_view kStyle = R"(
svg { background: #ffffff; color: #1d232b; font: 11px ui-sans-serif, system-ui, 'Helvetica Neue', Arial, sans-serif; }
text { fill: currentColor; font-variant-numeric: tabular-nums; }
.title { font-size: 13px; font-weight: 600; }
.quiet { fill: #5d6672; }
.track { fill: #eef0f3; }
.grid { stroke: #9aa3ae; stroke-opacity: .35; }
.meter { fill: #5d6672; fill-opacity: .55; }
.number { font-size: 10px; text-anchor: middle; }
.middle { text-anchor: middle; }
.end { text-anchor: end; }
@media (prefers-color-scheme: dark) {
  svg { background: #14171c; color: #dfe4ea; }
  .quiet { fill: #98a2af; }
  .track { fill: #20252c; }
  .grid { stroke-opacity: .18; }
  .meter { fill: #98a2af; }
}
)";

/// A colour in use: paint and chunk. Its class in the picture is k<paint>_<chunk>.
using Shade = std::pair<Paint, int>;

std::string class_of(Shade shade) {
  return fmt::format("k{}_{}", static_cast<int>(shade.first), shade.second);
}

class Svg {
 public:
  Svg(std::span<const Timeline> timelines, int width)
      : timelines_(timelines), width_(width), end_(common_end(timelines)) {
    std::int32_t last = 0;
    for (const Timeline& timeline : timelines) {
      for (int chunk : chunk_of_stage(timeline.trace)) chunks_ = std::max(chunks_, chunk + 1);
      devices_ += timeline.trace.devices;
      for (const plan::Span& span : timeline.trace.spans)
        last = std::max(last, span.instruction.microbatch);
    }
    digits_ = static_cast<double>(std::to_string(last).size());
    row_ = std::clamp(640.0 / std::max(devices_, 1), 9.0, 24.0);
  }

  std::string draw() {
    double y = kTop;
    for (const Timeline& timeline : timelines_) y = panel(timeline, y) + kPanelGap;
    y = legend(axis(y - kPanelGap + 4) + 22);
    return fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1:.0f}\" width=\"{0}\" "
        "height=\"{1:.0f}\" role=\"img\">\n<title>{2}</title>\n<style>{3}{4}</style>\n{5}</svg>\n",
        width_, y, xml_escaped(heading()), kStyle, shade_styles(), body_);
  }

 private:
  template <class... Values>
  void put(fmt::format_string<Values...> text, Values&&... values) {
    fmt::format_to(std::back_inserter(body_), text, std::forward<Values>(values)...);
  }

  double x(double time) const { return kLeft + time / end_ * (width_ - kLeft - kRight); }

  std::string heading() const {
    std::string text;
    for (const Timeline& timeline : timelines_) {
      if (!text.empty()) text += "; ";
      text += timeline.trace.name + ": " + headline(timeline);
    }
    return text;
  }

  /// Returns the y below what it drew; so do the others.
  double panel(const Timeline& timeline, double top) {
    const double rows = top + kTitle;
    put("<text class=\"title\" x=\"{}\" y=\"{:.1f}\">{}<tspan class=\"quiet\" dx=\"10\" "
        "font-weight=\"400\">{}</tspan></text>\n",
        kLeft, top + 12, xml_escaped(timeline.trace.name), headline(timeline));
    const double bar = width_ - kRight + 14;
    put("<text class=\"quiet\" x=\"{:.1f}\" y=\"{:.1f}\">busy</text>\n", bar, rows - 6);
    put("<text class=\"quiet end\" x=\"{:.1f}\" y=\"{:.1f}\">peak</text>\n", width_ - 8.0,
        rows - 6);
    for (int device = 0; device < timeline.trace.devices; ++device) {
      row(timeline.summary, device, rows + device * row_);
    }
    boxes(timeline.trace, rows);
    return rows + timeline.trace.devices * row_;
  }

  void row(const plan::Summary& summary, int device, double y) {
    const plan::DeviceSummary& own = summary.devices.at(device);
    const double share = summary.makespan > 0 ? own.busy / summary.makespan : 0;
    const double bar = width_ - kRight + 14;
    const double base = y + row_ / 2 + 3.5;
    const double high = row_ - 2;
    put("<rect class=\"track\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"/>",
        kLeft, y, x(end_) - kLeft, high);
    put("<rect class=\"track\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"42\" height=\"{:.1f}\"/>", bar, y,
        high);
    put("<rect class=\"meter\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"/>", bar,
        y, 42 * std::clamp(share, 0.0, 1.0), high);
    if (row_ < 11) return;
    put("<text class=\"quiet end\" x=\"{}\" y=\"{:.1f}\">{}</text>", kLeft - 8, base, device);
    put("<text class=\"quiet end\" x=\"{:.1f}\" y=\"{:.1f}\">{:.0f} %</text>", bar + 72, base,
        100 * share);
    put("<text class=\"quiet end\" x=\"{:.1f}\" y=\"{:.1f}\">{:.3g}</text>\n", width_ - 8.0, base,
        own.peak_activations);
  }

  /// Grouped by colour: the file stays small and the browser quick.
  void boxes(const plan::Trace& trace, double top) {
    const std::vector<int> chunk_of = chunk_of_stage(trace);
    std::vector<std::string> groups(kPaints.size() * chunks_);
    for (const plan::Span& span : trace.spans) {
      if (span.kind == plan::SpanKind::Transfer || span.end <= span.begin) continue;
      const Paint paint = paint_of(span);
      const bool compute = span.kind == plan::SpanKind::Compute && span.instruction.stage >= 0;
      const int chunk = compute ? chunk_of[span.instruction.stage] : 0;
      shades_.insert({paint, chunk});
      box(span, top + span.device * row_, groups[static_cast<int>(paint) * chunks_ + chunk]);
    }
    for (std::size_t i = 0; i < groups.size(); ++i) {
      if (groups[i].empty()) continue;
      const Shade shade{kPaints[i / chunks_], static_cast<int>(i % chunks_)};
      put("<g class=\"{}\">{}</g>\n", class_of(shade), groups[i]);
    }
  }

  void box(const plan::Span& span, double y, std::string& out) const {
    const double from = x(span.begin);
    const double wide = x(span.end) - from;
    const double gap = wide > 3 ? 0.8 : 0;  // neighbours stay apart
    fmt::format_to(std::back_inserter(out),
                   "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\"/>", from, y,
                   wide - gap, row_ - 2);
    if (span.kind != plan::SpanKind::Compute || row_ < 11) return;
    const std::string number = std::to_string(span.instruction.microbatch);
    if (wide < kDigit * digits_ + 3) return;
    fmt::format_to(std::back_inserter(out),
                   "<text class=\"number\" x=\"{:.2f}\" y=\"{:.1f}\">{}</text>",
                   from + (wide - gap) / 2, y + row_ / 2 + 2.5, number);
  }

  double axis(double y) {
    const double distance = tick_distance(end_, std::max(2, (width_ - 180) / 80));
    const std::string& unit = timelines_.front().trace.unit;
    for (int tick = 0; tick * distance <= end_ * (1 + 1e-9); ++tick) {
      const double at = x(tick * distance);
      put("<line class=\"grid\" x1=\"{0:.2f}\" x2=\"{0:.2f}\" y1=\"{1:.1f}\" y2=\"{2:.1f}\"/>", at,
          kTop + kTitle - 3, y + 2);
      put("<text class=\"quiet middle\" x=\"{:.2f}\" y=\"{:.1f}\">{}</text>\n", at, y + 14,
          format_time(tick * distance, unit));
    }
    return y + 14;
  }

  double legend(double y) {
    double at = kLeft;
    for (Paint paint : kPaints) {
      const std::string_view text = name_of(paint);
      if (!shades_.contains({paint, 0})) continue;
      for (int chunk = 0; shades_.contains({paint, chunk}); ++chunk, at += 15) {
        put("<g class=\"{}\"><rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"13\" height=\"13\"/></g>",
            class_of({paint, chunk}), at, y - 10);
      }
      put("<text class=\"quiet\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", at + 3, y + 0.5, text);
      at += 20 + 5.9 * static_cast<double>(text.size());
    }
    return y + 14;
  }

  std::string shade_styles() const {
    std::string css;
    for (const Shade& shade : shades_) {
      const Colour colour = colour_of(shade.first, shade.second, chunks_);
      const char* faint = shade.first == Paint::Wait ? " fill-opacity: .3;" : "";
      css += fmt::format(".{0} rect {{ fill: {1};{2} }} .{0} text {{ fill: {3}; }}\n",
                         class_of(shade), hex(colour), faint, hex(text_on(colour)));
    }
    return css;
  }

  std::span<const Timeline> timelines_;
  int width_;
  double end_;
  int chunks_ = 1;
  int devices_ = 0;
  double row_ = 0;
  double digits_ = 1;  // of the last microbatch: all boxes of a length have a number, or none
  std::set<Shade> shades_;
  std::string body_;
};

}  // namespace

std::string timeline_svg(std::span<const Timeline> timelines, int width) {
  CLEAVE_CHECK(!timelines.empty(), "nothing to draw");
  CLEAVE_CHECK(width >= 400, width);
  return Svg(timelines, width).draw();
}

}  // namespace cleave::report
