#include "train_trace.h"

#include <vector>

#include "files.h"

#include "cleave/base/check.h"
#include "cleave/report/chrome_trace.h"
#include "cleave/report/timeline_html.h"
#include "cleave/report/timeline_svg.h"

namespace cleave::app {

void check_trace_name(const std::string& path) {
  require(path.ends_with(".json") || path.ends_with(".html") || path.ends_with(".svg"), "--trace ",
          path, " must end in .json (Chrome, Perfetto), .html or .svg");
}

void write_trace(const std::string& path, const train::RunReport& report) {
  std::vector<report::Timeline> timelines;
  for (const auto* step : {&report.measured, &report.predicted}) {
    if (*step) timelines.push_back({(*step)->trace, (*step)->summary});
  }
  if (path.ends_with(".json")) return write_file(path, report::chrome_trace(timelines));
  if (path.ends_with(".svg")) return write_file(path, report::timeline_svg(timelines));
  write_file(path, report::timeline_html(timelines, "cleave train: measured and predicted"));
}

}  // namespace cleave::app
