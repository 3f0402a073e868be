#include "schedule/schedule_output.h"

#include <array>
#include <filesystem>

#include "json_text.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cleave/base/check.h"
#include "cleave/base/nearest.h"
#include "cleave/base/units.h"
#include "cleave/report/chrome_trace.h"
#include "cleave/report/text_table.h"
#include "cleave/report/timeline_html.h"
#include "cleave/report/timeline_svg.h"
#include "cleave/report/timeline_text.h"
#include "cleave/schedule/text.h"
#include "cleave/schedule/torch_csv.h"

namespace cleave::app {

namespace {

using enum ScheduleFormat;

constexpr std::array<std::string_view, 5> kFormatNames = {"text", "csv", "svg", "html", "trace"};
constexpr std::array kFormats = {Text, Csv, Svg, Html, Trace};

std::string number(double value) {
  return fmt::format("{:.6g}", value);
}

double peak_of(const plan::Summary& summary) {
  double peak = 0;
  for (const auto& device : summary.devices) peak = std::max(peak, device.peak_activations);
  return peak;
}

/// Per device for one schedule, per schedule for several.
std::string tables(std::span<const ScheduleRun> runs) {
  std::vector<std::vector<std::string>> rows = {{"schedule", "makespan", "cost", "bubble", "peak"}};
  for (const ScheduleRun& run : runs) {
    const plan::Summary& sum = run.timeline.summary;
    rows.push_back({run.name, number(sum.makespan), number(sum.cost),
                    fmt::format("{:.2f} %", 100 * sum.bubble_rate), number(peak_of(sum))});
  }
  std::string out = report::text_table(rows);
  if (runs.size() > 1) return out;

  const double makespan = runs.front().timeline.summary.makespan;
  rows = {{"device", "busy", "share", "peak"}};
  for (const auto& device : runs.front().timeline.summary.devices) {
    rows.push_back({std::to_string(rows.size() - 1), number(device.busy),
                    format_share(device.busy / makespan), number(device.peak_activations)});
  }
  return out + '\n' + report::text_table(rows);
}

std::string title_of(std::span<const ScheduleRun> runs) {
  const schedule::Program& program = runs.front().program;
  std::string names;
  for (const ScheduleRun& run : runs) names += (names.empty() ? "" : ", ") + run.name;
  return fmt::format("{}: {} devices, {} microbatches", names, program.devices,
                     program.microbatches);
}

nlohmann::json json_of(const ScheduleRun& run) {
  nlohmann::json json = {{"schedule", run.name},
                         {"stages", run.program.stages},
                         {"microbatches", run.program.microbatches},
                         {"verified", run.violations.empty()}};
  if (!run.violations.empty()) {
    json["violations"] = run.violations;
    return json;
  }
  const plan::Summary& summary = run.timeline.summary;
  json["makespan"] = summary.makespan;
  json["cost"] = summary.cost;
  json["bubble_rate"] = summary.bubble_rate;
  for (const auto& device : summary.devices) {
    json["devices"].push_back({{"busy", device.busy},
                               {"wait", device.wait},
                               {"peak_activations", device.peak_activations}});
  }
  return json;
}

}  // namespace

ScheduleFormat parse_format(const std::string& name, const std::string& path) {
  const auto find = [](std::string_view wanted) { return std::ranges::find(kFormatNames, wanted); };
  if (!name.empty()) {
    require(find(name) != kFormatNames.end(), "unknown format '", name, "'",
            known_are(name, kFormatNames));
    return kFormats[find(name) - kFormatNames.begin()];
  }
  std::string ending = std::filesystem::path(path).extension();
  if (ending.empty()) return Picture;
  ending.erase(0, 1);
  if (ending == "txt") ending = "text";
  if (ending == "json") ending = "trace";
  require(find(ending) != kFormatNames.end(), "--output ", path, ": no format ends in .", ending,
          "; end it in .txt, .csv, .svg, .html or .json, or give --format");
  return kFormats[find(ending) - kFormatNames.begin()];
}

std::string render(std::span<const ScheduleRun> runs, ScheduleFormat format,
                   const report::Terminal& terminal) {
  std::vector<report::Timeline> timelines;
  for (const ScheduleRun& run : runs) timelines.push_back(run.timeline);
  const bool one_only = format == Text || format == Csv;
  require(!one_only || runs.size() == 1, "formats text and csv take one schedule, not ",
          runs.size(), "; choose html or svg to compare several");
  switch (format) {
    case Text:
      return schedule::to_text(runs.front().program);
    case Csv:
      return schedule::to_torch_csv(runs.front().program);
    case Svg:
      return report::timeline_svg(timelines);
    case Html:
      return report::timeline_html(timelines, title_of(runs));
    case Trace:
      return report::chrome_trace(timelines);
    case Picture:
      break;
  }
  std::string out;
  for (const report::Timeline& timeline : timelines) {
    out += report::timeline_text(timeline, terminal) + '\n';
  }
  return out + tables(runs);
}

std::string to_json(std::span<const ScheduleRun> runs) {
  if (runs.size() == 1) return json_text(json_of(runs.front()));
  nlohmann::json list;
  for (const ScheduleRun& run : runs) list.push_back(json_of(run));
  return json_text(nlohmann::json{{"schedules", list}});
}

}  // namespace cleave::app
