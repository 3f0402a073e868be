#include "plan/plan_output.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "json_text.h"
#include "plan/memory_bar.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cleave/base/units.h"
#include "cleave/report/text_table.h"

namespace cleave::app {
namespace {

using plan::DeviceMemory;
using plan::Prediction;
using Rows = std::vector<std::vector<std::string>>;

constexpr std::ptrdiff_t kMostDevices = 8;

std::int64_t whole(double bytes) {
  return std::llround(bytes);
}

/// How a model with modules is cut; others are cut as evenly as can be.
std::string cut_line(const PlanAnswer& answer) {
  const auto& partition = answer.choice().layout.partition;
  if (partition.size() < 2) return "";
  return fmt::format("layers {}, of which the first {} are the tower's\n",
                     fmt::join(partition, "+"),
                     answer.workload.model.blocks() - answer.workload.model.layers);
}

nlohmann::json json_of(const plan::TimeParts& parts) {
  nlohmann::json json;
  for (const plan::TimePart& part : plan::time_parts()) {
    std::string key(part.name);
    std::ranges::replace(key, ' ', '_');
    json[key] = parts.*part.seconds;
  }
  return json;
}

nlohmann::json json_of(const plan::Workload& workload, const Prediction& p) {
  nlohmann::json devices = nlohmann::json::array();
  for (const DeviceMemory& device : p.devices) {
    devices.push_back({{"weights", whole(device.weights)},
                       {"gradients", whole(device.gradients)},
                       {"optimizer", whole(device.optimizer)},
                       {"activations", whole(device.activations)},
                       {"work", whole(device.work)}});
  }
  return {{"step_seconds", p.step_seconds},
          {"tflops_per_device", tflops_per_device(workload, p)},
          {"memory_bytes", p.memory_bytes},
          {"budget_bytes", p.budget_bytes},
          {"fits", p.fits()},
          {"layout", layout_json(p.layout)},
          {"microbatches", plan::microbatches(workload, p.layout)},
          {"seconds", json_of(p.parts)},
          {"memory", devices}};
}

std::string time_table(const Prediction& p) {
  Rows rows = {{"where the time goes", "seconds", "share"}};
  for (const plan::TimePart& part : plan::time_parts()) {
    const double seconds = p.parts.*part.seconds;
    if (seconds != 0)
      rows.push_back({std::string(part.name), format_seconds(seconds),
                      format_share(seconds / p.step_seconds)});
  }
  return report::text_table(rows);
}

std::string memory_table(const Prediction& p) {
  Rows rows = {
      {"pipeline device", "weights", "gradients", "optimizer", "activations", "work", "all", ""}};
  const auto bytes = [](double value) { return format_bytes(whole(value)); };
  const std::ptrdiff_t count = std::ssize(p.devices);
  for (std::ptrdiff_t d = 0; d < count; ++d) {
    // The ends of a deep pipeline say it all.
    if (count > kMostDevices && d >= kMostDevices - 1 && d < count - 1) continue;
    const DeviceMemory& device = p.devices[d];
    const double share = device.all() / static_cast<double>(p.budget_bytes);
    rows.push_back({std::to_string(d), bytes(device.weights), bytes(device.gradients),
                    bytes(device.optimizer), bytes(device.activations), bytes(device.work),
                    bytes(device.all()), memory_bar(share)});
  }
  return report::text_table(rows);
}

std::vector<std::string> layout_row(const Prediction& p) {
  const plan::Layout& l = p.layout;
  return {fmt::format("tp {} pp {} dp {}", l.tensor, l.pipeline, l.data),
          std::to_string(l.microbatch),
          l.chunks > 1 ? fmt::format("{} x{}", l.schedule, l.chunks) : l.schedule,
          std::to_string(l.zero),
          std::string(plan::recompute_name(l)),
          l.sequence_parallel ? "yes" : "no",
          format_seconds(p.step_seconds),
          format_bytes(p.memory_bytes)};
}

/// The fastest, or those that come nearest to fitting.
std::string candidate_table(const PlanAnswer& answer) {
  const bool fits = answer.choice().fits();
  const std::vector<Prediction>& list = answer.listed();
  Rows rows = {{"layout", "microbatch", "schedule", "zero", "recompute", "sp", "step", "memory",
                fits ? "loses by" : "too much by"}};
  for (const Prediction& p : list) {
    rows.push_back(layout_row(p));
    if (!fits) {
      rows.back().push_back(format_bytes(p.excess()));
    } else if (&p == &list.front()) {
      rows.back().push_back("");
    } else {
      const plan::Reason reason = why_slower(list.front(), p);
      rows.back().push_back(fmt::format(
          "{} ({} {:+.1f} %)", format_share(p.step_seconds / list.front().step_seconds - 1),
          reason.part, 100 * reason.share));
    }
  }
  return report::text_table(rows);
}

std::string headline(const PlanAnswer& answer) {
  const Prediction& p = answer.choice();
  return fmt::format(
      "{}\n{}{} per step, {:.0f} TFLOP/s per device ({} of peak), {} of {} usable\n{}",
      to_string(p.layout), cut_line(answer), format_seconds(p.step_seconds),
      tflops_per_device(answer.workload, p), format_share(flops_share(answer.workload, p)),
      format_bytes(p.memory_bytes), format_bytes(p.budget_bytes),
      describe_rate(answer.workload, p, answer.length));
}

}  // namespace

nlohmann::json layout_json(const plan::Layout& layout) {
  nlohmann::json json = {{"tp", layout.tensor},
                         {"pp", layout.pipeline},
                         {"dp", layout.data},
                         {"microbatch", layout.microbatch},
                         {"chunks", layout.chunks},
                         {"schedule", layout.schedule},
                         {"zero", layout.zero},
                         {"recompute", plan::recompute_name(layout)},
                         {"sequence_parallel", layout.sequence_parallel}};
  if (!layout.partition.empty()) json["partition"] = layout.partition;
  return json;
}

std::string to_json(const PlanAnswer& answer) {
  nlohmann::json json = json_of(answer.workload, answer.choice());
  json["cluster"] = to_string(answer.workload.cluster);
  json["sequence"] = answer.workload.sequence;
  json["tokens_per_second"] = tokens_per_second(answer.workload, answer.choice());
  json["mfu"] = flops_share(answer.workload, answer.choice());
  if (answer.length) {
    json["tokens"] = answer.length->tokens;
    json["days"] = answer.length->days;
    json["device_hours"] = answer.length->device_hours;
    if (answer.length->cost) json["cost"] = *answer.length->cost;
  }
  json["candidates"] = nlohmann::json::array();
  const auto& search = answer.search;
  for (const Prediction& p : answer.listed())
    json["candidates"].push_back(json_of(answer.workload, p));
  json["search_seconds"] = answer.search_seconds;
  if (answer.searched) {
    json["layouts"] = search.variants;
    json["layouts_unfit"] = search.variants_unfit;
    json["layouts_simulated"] = search.simulated;
  }
  if (answer.devices_needed > 0) json["devices_needed"] = answer.devices_needed;
  return json_text(json, 2);
}

std::string to_text(const PlanAnswer& answer) {
  std::string text =
      headline(answer) + "\n" + time_table(answer.choice()) + "\n" + memory_table(answer.choice());
  if (!answer.searched) return text;
  text += "\n" + candidate_table(answer);
  text += fmt::format(
      "\n{} layouts in {}: {} do not fit, {} were simulated, the others cannot be faster\n",
      answer.search.variants, format_seconds(answer.search_seconds), answer.search.variants_unfit,
      answer.search.simulated);
  return text;
}

std::string describe_search(const PlanAnswer& answer) {
  const std::string kept = fmt::format("the search kept to what {} has", answer.kept_to);
  if (!answer.beyond) return kept + ", and nothing else is faster";
  return fmt::format("{}; {}, which it has not, takes {} less time", kept,
                     to_string(answer.beyond->layout),
                     format_share(1 - answer.beyond->step_seconds / answer.choice().step_seconds));
}

std::string refusal(const PlanAnswer& answer) {
  const Prediction& p = answer.choice();
  std::string text =
      fmt::format("{} needs {} on a device, {} more than the {} usable of {}", to_string(p.layout),
                  format_bytes(p.memory_bytes), format_bytes(p.excess()),
                  format_bytes(p.budget_bytes), answer.workload.cluster.hardware->name);
  if (!answer.searched) return text + "; leave --layout out to search for one that fits";
  const std::string none =
      answer.kept_to.empty() ? "no layout fits" : "no layout that " + answer.kept_to + " has fits";
  if (answer.beyond) text += "; without --export " + to_string(answer.beyond->layout) + " fits";
  if (answer.devices_needed > 0) {
    return none + "; the nearest, " + text +
           fmt::format("; {} devices of this kind would do", answer.devices_needed);
  }
  return none + "; the nearest, " + text +
         "; more devices do not help at this batch: raise --batch or take devices with more memory";
}

}  // namespace cleave::app
