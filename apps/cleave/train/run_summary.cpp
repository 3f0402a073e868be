#include "train/run_summary.h"

#include <algorithm>
#include <string_view>

#include "edge/edge_summary.h"
#include "words.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cleave/base/units.h"
#include "cleave/report/text_table.h"

namespace cleave::app {
namespace {

/// How much of what devices exchanged went on behind compute, on the one that it held up most. (Not
/// the one with the least share: who comes last to a sum has nothing to hide, and no time lost.)
std::string describe_overlap(const std::vector<train::DeviceReport>& devices, std::string_view what,
                             double train::DeviceReport::*seconds,
                             double train::DeviceReport::*hidden) {
  const auto worst = std::ranges::max_element(
      devices, {}, [&](const auto& device) { return device.*seconds * (1 - device.*hidden); });
  if (worst == devices.end() || (*worst).*seconds == 0) return "";
  return fmt::format("{} for {} a step, {:.0f} % of it hidden behind compute\n", what,
                     format_seconds((*worst).*seconds), 100 * (*worst).*hidden);
}

std::string describe_overlaps(const std::vector<train::DeviceReport>& devices) {
  using train::DeviceReport;
  return describe_overlap(devices, "gradients on their way between replicas", &DeviceReport::reduce,
                          &DeviceReport::reduce_hidden) +
         describe_overlap(devices, "activations on their way inside layers", &DeviceReport::tensor,
                          &DeviceReport::tensor_hidden) +
         describe_overlap(devices, "moves out of the memory and back", &DeviceReport::moves,
                          &DeviceReport::moves_hidden);
}

/// ", predicted 129 ms (114 ms to 146 ms)"
std::string describe_prediction(const train::RunReport& report) {
  if (!report.predicted_step_seconds) return "";
  std::string text = fmt::format(", predicted {}", format_seconds(*report.predicted_step_seconds));
  if (report.predicted_range)
    text += fmt::format(" ({} to {})", format_seconds(report.predicted_range->low),
                        format_seconds(report.predicted_range->high));
  return text;
}

/// Why a step may have taken another time than was predicted; nothing if it took that.
std::string describe_disturbance(const train::RunReport& report) {
  if (!report.predicted_range || report.predicted_range->contains(report.step_seconds)) return "";
  const bool slower = report.step_seconds > report.predicted_range->high;
  const std::string others = report.others
                                 ? fmt::format("other programs took {} of the processors meanwhile",
                                               format_share(*report.others))
                                 : "other programs may have taken part of the processors";
  return fmt::format("that is {} than predicted; {}\n", slower ? "slower" : "faster", others);
}

/// Whether the plan of memory was kept; nothing if there was none to keep.
std::string describe_peaks(const std::vector<train::DeviceReport>& devices) {
  for (std::size_t d = 0; d < devices.size(); ++d) {
    const std::int64_t peak = devices[d].peak_bytes, planned = devices[d].planned_bytes;
    if (peak != planned)
      return fmt::format("device {} took {} B where {} B were planned\n", d, peak, planned);
  }
  return devices.empty() ? "" : "every peak is as planned, to the byte\n";
}

/// 0 stands for "not known".
nlohmann::json optional_bytes(std::int64_t bytes) {
  return bytes == 0 ? nlohmann::json() : nlohmann::json(bytes);
}

nlohmann::json range_json(const std::optional<train::SecondsRange>& range) {
  return range ? nlohmann::json{range->low, range->high} : nlohmann::json();
}

nlohmann::json to_json(const comm::Sent& sent) {
  return {{"messages", sent.message},
          {"reduce", sent.reduce},
          {"gather", sent.gather},
          {"numbers", sent.numbers}};
}

}  // namespace

std::string describe_report(const train::RunReport& report) {
  if (report.stopped_at_start)
    return "stopped before the first step, as asked; nothing was saved, and --resume goes on\n";
  std::string text;
  if (report.stopped)
    text += fmt::format("stopped after step {}, as asked; --resume goes on\n", report.steps);
  if (report.finished_before)
    text +=
        fmt::format("finished already, after step {}; raise train.steps to go on\n", report.steps);
  if (!report.losses.empty()) {
    text += fmt::format("loss {:.4f} -> {:.4f}", *report.first_loss, report.losses.back());
    if (report.validation_loss) text += fmt::format(", validation {:.4f}", *report.validation_loss);
    if (report.accuracy) text += fmt::format(", accuracy {:.2f} %", 100 * *report.accuracy);
    text +=
        fmt::format("; {:.3g} epochs, {:.0f} tokens/s, ", report.epochs, report.tokens_per_second);
  }
  if (report.step_seconds > 0) {
    text += fmt::format("step {} (median)", format_seconds(report.step_seconds));
    text += describe_prediction(report);
    text += fmt::format(", bubble {}, idle {}\n", format_share(report.bubble),
                        format_share(report.idle));
    text += describe_disturbance(report);
  }
  std::vector<std::vector<std::string>> rows = {
      {"device", "parameters", "busy", "wait", "sent/step", "peak", "planned"}};
  for (std::size_t d = 0; d < report.devices.size(); ++d) {
    const train::DeviceReport& device = report.devices[d];
    rows.push_back({fmt::format("{}", d), rounded_count(device.parameters),
                    format_seconds(device.busy), format_seconds(device.wait),
                    format_bytes(device.sent.total()), format_bytes(device.peak_bytes),
                    format_bytes(device.planned_bytes)});
  }
  text += describe_rounds(report);
  text += report::text_table(rows);
  if (!report.weights.empty()) text += describe_peaks(report.devices);
  text += describe_overlaps(report.devices);
  if (report.weights.empty()) return text + "emulated: no loss, no weights, nothing saved\n";
  return text + fmt::format("weights {}, saved in {}\n", report.weights, report.checkpoint);
}

nlohmann::json to_json(const train::RunReport& report) {
  nlohmann::json devices = nlohmann::json::array();
  for (const train::DeviceReport& d : report.devices) {
    devices.push_back({{"peak_bytes", d.peak_bytes},
                       {"planned_bytes", d.planned_bytes},
                       {"outside_bytes", d.outside_bytes},
                       {"planned_outside_bytes", d.planned_outside_bytes},
                       {"host_bytes", d.host_bytes},
                       {"planned_host_bytes", d.planned_host_bytes},
                       {"budget_bytes", d.budget_bytes},
                       {"library_bytes", d.library_bytes},
                       {"resident_bytes", optional_bytes(d.resident_bytes)},
                       {"parameters", d.parameters},
                       {"bytes_sent", d.sent.total()},
                       {"sent", to_json(d.sent)},
                       {"planned_sent", to_json(d.planned_sent)},
                       {"compute", d.compute},
                       {"extent", d.extent},
                       {"busy", d.busy},
                       {"wait", d.wait},
                       {"reduce", d.reduce},
                       {"reduce_hidden", d.reduce_hidden},
                       {"tensor", d.tensor},
                       {"tensor_hidden", d.tensor_hidden},
                       {"moves", d.moves},
                       {"moves_hidden", d.moves_hidden}});
  }
  const auto optional = [](const std::optional<double>& value) {
    return value ? nlohmann::json(*value) : nlohmann::json();
  };
  const bool emulated = report.weights.empty();
  return {{"steps", report.steps},
          {"loss", emulated ? nlohmann::json() : nlohmann::json(report.losses)},
          {"validation_loss", optional(report.validation_loss)},
          {"accuracy", optional(report.accuracy)},
          {"epochs", report.epochs},
          {"left_out", report.left_out},
          {"exact", emulated ? nlohmann::json() : nlohmann::json(report.exact)},
          {"weights", emulated ? nlohmann::json() : nlohmann::json(report.weights)},
          {"step_seconds", report.step_seconds},
          {"load_seconds", optional(report.load_seconds)},
          {"predicted_step_seconds", optional(report.predicted_step_seconds)},
          {"predicted_range", range_json(report.predicted_range)},
          {"others", optional(report.others)},
          {"tokens_per_second", report.tokens_per_second},
          {"bubble", report.bubble},
          {"idle", report.idle},
          {"checkpoint", emulated ? nlohmann::json() : nlohmann::json(report.checkpoint)},
          {"stopped", report.stopped},
          {"finished_before", report.finished_before},
          {"rounds", rounds_json(report)},
          {"devices", devices}};
}

}  // namespace cleave::app
