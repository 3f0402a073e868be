#include "train/train_trace.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#include <unistd.h>

#include "cleave/base/check.h"
#include "cleave/base/file.h"
#include "cleave/report/chrome_trace.h"
#include "cleave/report/timeline_html.h"
#include "cleave/report/timeline_svg.h"

namespace cleave::app {

namespace {

namespace fs = std::filesystem;

bool is_same(const fs::path& a, const fs::path& b) {
  std::error_code error;
  const auto whole = [&](const fs::path& path) {
    return fs::weakly_canonical(fs::absolute(path, error), error);
  };
  return whole(a) == whole(b);
}

std::string picture_of(const std::string& path, const std::vector<report::Timeline>& timelines) {
  if (path.ends_with(".json")) return report::chrome_trace(timelines);
  if (path.ends_with(".svg")) return report::timeline_svg(timelines);
  return report::timeline_html(timelines, "cleave train: measured and predicted");
}

}  // namespace

void check_trace_name(const std::string& path, const std::string& will_be_made) {
  require(path.ends_with(".json") || path.ends_with(".html") || path.ends_with(".svg"), "--trace ",
          path, " must end in .json (Chrome, Perfetto), .html or .svg");
  const fs::path parent = fs::path(path).parent_path();
  const fs::path directory = parent.empty() ? fs::path(".") : parent;
  std::error_code error;
  require(!fs::is_directory(path, error), "cannot write --trace ", path,
          ": it is a directory; choose another name");
  if (!fs::exists(directory, error) && is_same(directory, will_be_made)) return;
  // The file is replaced in one instant, so what counts is the directory.
  const int refused = ::access((directory / ".").c_str(), W_OK | X_OK);
  require(refused == 0, "cannot write --trace ", path, ": ", std::strerror(errno),
          "; choose a directory that exists and that you may write to");
}

void write_trace(const std::string& path, const train::RunReport& report) {
  std::vector<report::Timeline> timelines;
  for (const auto* step : {&report.measured, &report.predicted}) {
    if (*step) timelines.push_back({(*step)->trace, (*step)->summary});
  }
  write_text_atomically(path, picture_of(path, timelines));
}

}  // namespace cleave::app
