#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <sstream>
#include <utility>

#include "command.h"
#include "files.h"
#include "json_text.h"
#include "watch/run_history.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cleave/base/median.h"
#include "cleave/base/units.h"
#include "cleave/report/text_table.h"

namespace cleave::app {
namespace {

struct ReportFlags {
  std::vector<std::string> directories;
  std::string output;
  bool json = false;
};

/// What one line of the comparison says of a run.
struct RunFigures {
  std::int64_t steps = 0;
  double loss = 0;
  std::optional<double> validation;
  double seconds = 0;            ///< of all steps together
  double tokens_per_second = 0;  ///< median
};

RunFigures figures_of(const RunHistory& run) {
  RunFigures figures;
  std::vector<double> rates;
  for (const train::StepMetrics& line : run.lines) {
    figures.steps = line.step;
    figures.loss = line.loss;
    figures.seconds += line.seconds;
    if (line.validation_loss) figures.validation = line.validation_loss;
    if (!std::isnan(line.tokens_per_second)) rates.push_back(line.tokens_per_second);
  }
  if (!rates.empty()) figures.tokens_per_second = median(std::move(rates));
  return figures;
}

/// The keys in which the configs of the runs differ, "section.key" -> a value for each run.
std::map<std::string, std::vector<std::string>> differences(const std::vector<RunHistory>& runs) {
  std::map<std::string, std::vector<std::string>> values;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    std::istringstream config(runs[r].config);
    std::string section;
    for (std::string line; std::getline(config, line);) {
      if (line.starts_with('[')) section = line.substr(1, line.find(']') - 1);
      const auto equals = line.find(" = ");
      if (equals == line.npos) continue;
      auto& row = values[section + "." + line.substr(0, equals)];
      row.resize(runs.size(), "-");
      row[r] = line.substr(equals + 3);
    }
  }
  for (auto& [key, row] : values) row.resize(runs.size(), "-");
  std::erase_if(values, [](const auto& entry) {
    return std::ranges::all_of(entry.second, [&](const auto& v) { return v == entry.second[0]; });
  });
  return values;
}

std::string report_text(const std::vector<RunHistory>& runs) {
  std::vector<std::vector<std::string>> rows = {
      {"run", "steps", "loss", "validation", "time", "tokens/s"}};
  for (const RunHistory& run : runs) {
    const RunFigures f = figures_of(run);
    rows.push_back({run.name, std::to_string(f.steps), fmt::format("{:.4f}", f.loss),
                    f.validation ? fmt::format("{:.4f}", *f.validation) : "-",
                    format_seconds(f.seconds), fmt::format("{:.0f}", f.tokens_per_second)});
  }
  std::string text = report::text_table(rows);
  for (const auto& [key, values] : differences(runs))
    text += fmt::format("{}: {}\n", key, fmt::join(values, " | "));
  return text;
}

nlohmann::json report_json(const std::vector<RunHistory>& runs) {
  nlohmann::json all = nlohmann::json::array();
  for (const RunHistory& run : runs) {
    const RunFigures f = figures_of(run);
    all.push_back({{"name", run.name},
                   {"steps", f.steps},
                   {"loss", f.loss},
                   {"validation_loss", f.validation ? nlohmann::json(*f.validation) : nullptr},
                   {"seconds", f.seconds},
                   {"tokens_per_second", f.tokens_per_second}});
  }
  return {{"runs", all}, {"differences", differences(runs)}};
}

void report_runs(const ReportFlags& flags) {
  std::vector<RunHistory> runs;
  for (const std::string& directory : flags.directories) runs.push_back(read_history(directory));
  if (!flags.output.empty()) {
    const std::string title =
        runs.size() == 1 ? "cleave: " + runs[0].name : "cleave: runs compared";
    write_file(flags.output, run_page(title, runs, Watch::Ended));
  }
  write_file("", flags.json ? json_text(report_json(runs)) : report_text(runs));
}

}  // namespace

void add_report_command(CLI::App& app) {
  auto flags = std::make_shared<ReportFlags>();
  CLI::App* verb = app.add_subcommand("report", "Compare runs by what they have logged.");
  verb->add_option("dir", flags->directories, "The out directory of a run; several to compare")
      ->required();
  verb->add_option("--output", flags->output,
                   "Write a page with charts there as well: report.html");
  verb->add_flag("--json", flags->json, "Print one JSON object");
  verb->footer("Example:\n  cleave report out other/out --output report.html");
  verb->callback([flags] { report_runs(*flags); });
}

}  // namespace cleave::app
