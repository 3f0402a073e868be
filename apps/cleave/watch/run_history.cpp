#include "watch/run_history.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <span>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cleave/base/check.h"
#include "cleave/base/file.h"
#include "cleave/base/shallow_json.h"
#include "cleave/train/config/config.h"

namespace cleave::app {
namespace {

using nlohmann::json;
using train::StepMetrics;

json device_json(const RunHistory::Device& device) {
  json value = {{"planned", device.planned_bytes},
                {"budget", device.budget_bytes},
                {"sent", device.sent_bytes}};
  if (device.peak_bytes == 0) return value;
  value["peak"] = device.peak_bytes;
  value["busy"] = device.busy;
  value["wait"] = device.wait;
  return value;
}

json lanes_json(const RunHistory::Lanes& lanes) {
  return {{"step", lanes.step},
          {"seconds", lanes.seconds},
          {"predicted_seconds", lanes.predicted_seconds},
          {"measured", lanes.measured},
          {"predicted", lanes.predicted}};
}

/// A column of these steps; what is not finite becomes null.
template <class Member>
json column(std::span<const StepMetrics> lines, Member member) {
  json values = json::array();
  for (const StepMetrics& line : lines) values.push_back(line.*member);
  return values;
}

/// A value of a line of the log that no run writes.
[[noreturn]] void refuse(const char* key, const json& value) {
  throw UserError(detail::concat("its ", key, " is ", value.dump().substr(0, 40)));
}

/// NaN where the line has none; JSON has no other word for what is not finite than null.
double real_of(const json& line, const char* key) {
  const auto found = line.find(key);
  if (found == line.end() || found->is_null()) return std::nan("");
  if (!found->is_number()) refuse(key, *found);
  return found->get<double>();
}

/// The same of what cannot be below 0.
double amount_of(const json& line, const char* key) {
  const double amount = real_of(line, key);
  if (amount < 0) refuse(key, line[key]);
  return amount;
}

/// A whole number from `least`, which is not negative, on; `least` where the line has none.
std::int64_t count_of(const json& line, const char* key, std::int64_t least) {
  const auto found = line.find(key);
  if (found == line.end()) return least;
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (!found->is_number_unsigned() || found->get<std::uint64_t>() > kMost ||
      found->get<std::int64_t>() < least)
    refuse(key, *found);
  return found->get<std::int64_t>();
}

/// Throws UserError that names the value if one of them is out of its range.
StepMetrics metrics_of(const json& line) {
  StepMetrics metrics{.step = count_of(line, "step", 1),
                      .loss = real_of(line, "loss"),
                      .gradient_norm = amount_of(line, "gradient_norm"),
                      .lr = amount_of(line, "lr"),
                      .tokens_per_second = amount_of(line, "tokens_per_second"),
                      .seconds = amount_of(line, "seconds"),
                      .wait = amount_of(line, "wait_seconds"),
                      .epochs = amount_of(line, "epochs"),
                      .memory_bytes = count_of(line, "memory_bytes", 0)};
  if (line.contains("validation_loss")) metrics.validation_loss = real_of(line, "validation_loss");
  if (line.contains("accuracy")) metrics.accuracy = amount_of(line, "accuracy");
  return metrics;
}

/// "after step 12: lost: device 3 …"; throws as metrics_of() does.
std::string event_text(const json& event) {
  const auto text = event.find("text");
  if (text != event.end() && !text->is_string()) refuse("text", *text);
  return fmt::format("after step {}: {}", count_of(event, "after_step", 0),
                     event.value("text", std::string()));
}

/// Leaves half as many as there may be. The newest stay as they are, since a browser may not have
/// asked for them yet.
void thin(std::vector<StepMetrics>& lines) {
  constexpr std::ptrdiff_t kNewest = kMostLines / 8;
  const auto validations = std::ranges::count_if(
      lines, [](const StepMetrics& m) { return m.validation_loss.has_value(); });
  const bool keeps_validations = validations < static_cast<std::ptrdiff_t>(kMostLines / 4);
  for (std::int64_t stride = 2; lines.size() > kMostLines / 2; stride *= 2) {
    const auto end =
        std::remove_if(lines.begin(), lines.end() - kNewest, [&](const StepMetrics& m) {
          return (m.step - 1) % stride != 0 && !(keeps_validations && m.validation_loss);
        });
    lines.erase(end, lines.end() - kNewest);
  }
}

}  // namespace

json to_json(const RunHistory& run, const Known& known) {
  const auto first = std::ranges::upper_bound(run.lines, known.step, {}, &StepMetrics::step);
  const auto rest = static_cast<std::size_t>(run.lines.end() - first);
  const std::span<const StepMetrics> lines(first, std::min(rest, known.most_steps));
  json validation = json::array();
  for (const StepMetrics& line : run.lines) {
    if (line.validation_loss) validation.push_back({line.step, *line.validation_loss});
  }
  json devices = json::array();
  for (const RunHistory::Device& device : run.devices) devices.push_back(device_json(device));
  json value = {
      {"name", run.name},
      {"config", run.config},
      {"steps", run.steps},
      {"predicted_seconds", run.predicted_seconds ? json(*run.predicted_seconds) : json(nullptr)},
      {"columns",
       {{"step", column(lines, &StepMetrics::step)},
        {"loss", column(lines, &StepMetrics::loss)},
        {"gradient_norm", column(lines, &StepMetrics::gradient_norm)},
        {"lr", column(lines, &StepMetrics::lr)},
        {"tokens_per_second", column(lines, &StepMetrics::tokens_per_second)},
        {"seconds", column(lines, &StepMetrics::seconds)}}},
      {"validation", validation},
      {"events", run.events},
      {"devices", devices},
      {"more", lines.size() < rest},
      {"done", run.done}};
  if (run.lanes.step > known.lanes) value["lanes"] = lanes_json(run.lanes);
  return value;
}

void note_step(RunHistory& run, const StepMetrics& metrics) {
  while (!run.lines.empty() && run.lines.back().step >= metrics.step) run.lines.pop_back();
  run.lines.push_back(metrics);
  if (run.lines.size() > kMostLines) thin(run.lines);
}

void note_event(RunHistory& run, const std::string& text) {
  if (run.events.size() == kMostEvents) run.events.erase(run.events.begin());
  run.events.push_back(text);
}

void read_log(const std::filesystem::path& log, RunHistory& run) {
  std::ifstream file(log);
  for (std::string line; std::getline(file, line);) {
    const json parsed = parse_shallow_or_discard<json>(line);
    const bool is_event = train::MetricsLog::is_event(line) && parsed.is_object();
    const auto beginning = [&] {
      return detail::concat(log.string(), " has a line \"", line.substr(0, 40), "\", ");
    };
    require(is_event || (parsed.is_object() && parsed.contains("step")), beginning(),
            "which is not of a step; it was changed, or cut off");
    try {
      if (is_event) {
        note_event(run, event_text(parsed));
      } else {
        run.lines.push_back(metrics_of(parsed));
      }
    } catch (const UserError& error) {
      throw UserError(detail::concat(beginning(), "and ", error.what(), "; it was changed"));
    }
  }
}

RunHistory read_history(const std::filesystem::path& out) {
  const std::filesystem::path log = out / "log.jsonl";
  require(std::filesystem::is_regular_file(log), "there is no log.jsonl in ", out.string(),
          "; give the out directory of a run that has done a step");
  RunHistory run{.name = (out / "").parent_path().filename().string(), .done = true};
  if (std::filesystem::is_regular_file(out / "config.toml")) {
    run.config = read_text(out / "config.toml");
    run.steps = train::parse_config(run.config, (out / "config.toml").string()).train.steps;
  }
  read_log(log, run);
  if (run.steps == 0 && !run.lines.empty()) run.steps = run.lines.back().step;
  return run;
}

std::string metrics_text(const RunHistory& run) {
  std::string text;
  const auto gauge = [&](std::string_view name, std::string_view help, double value) {
    text += fmt::format("# HELP cleave_{0} {1}\n# TYPE cleave_{0} gauge\ncleave_{0} {2}\n", name,
                        help, std::isnan(value) ? "NaN" : fmt::format("{}", value));
  };
  gauge("steps_planned", "Steps of the run.", static_cast<double>(run.steps));
  if (run.lines.empty()) return text;
  const StepMetrics& last = run.lines.back();
  gauge("step", "Steps done.", static_cast<double>(last.step));
  gauge("loss", "Loss of the last step, in nats per token.", last.loss);
  gauge("gradient_norm", "Gradient norm of the last step, before clipping.", last.gradient_norm);
  gauge("learning_rate", "Learning rate of the last step.", last.lr);
  gauge("tokens_per_second", "Tokens of the last step by its time.", last.tokens_per_second);
  gauge("step_seconds", "Time of the last step.", last.seconds);
  for (auto line = run.lines.rbegin(); line != run.lines.rend(); ++line) {
    if (!line->validation_loss) continue;
    gauge("validation_loss", "The newest validation loss.", *line->validation_loss);
    break;
  }
  text +=
      "# HELP cleave_memory_planned_bytes Planned memory of a device.\n"
      "# TYPE cleave_memory_planned_bytes gauge\n";
  for (std::size_t d = 0; d < run.devices.size(); ++d)
    text += fmt::format("cleave_memory_planned_bytes{{device=\"{}\"}} {}\n", d,
                        run.devices[d].planned_bytes);
  return text;
}

}  // namespace cleave::app
