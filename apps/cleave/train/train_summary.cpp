#include "train/train_summary.h"

#include <algorithm>
#include <array>
#include <bit>

#include "edge/edge_summary.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cleave/base/units.h"
#include "cleave/report/text_table.h"
#include "cleave/spec/trainable.h"
#include "cleave/train/step/numerics.h"
#include "cleave/train/step/trainer.h"

namespace cleave::app {
namespace {

using schedule::BufferKind;

/// What a device's peak consists of. Activations are what is left of the peak once the lasting
/// buffers are taken off: they share one space over time.
struct MemorySplit {
  std::int64_t weights = 0;
  std::int64_t gradients = 0;
  std::int64_t optimizer = 0;
  std::int64_t scratch = 0;
  std::int64_t activations = 0;
  std::int64_t staging = 0;
};

MemorySplit split_of(const engine::CompiledStep& step, int device) {
  MemorySplit split;
  for (const schedule::Buffer& buffer : step.program.buffers) {
    if (buffer.device != device) continue;
    const std::int64_t bytes = aligned(buffer.bytes);
    if (buffer.kind == BufferKind::Weights) split.weights += bytes;
    if (buffer.kind == BufferKind::Gradients) split.gradients += bytes;
    if (buffer.kind == BufferKind::Optimizer) split.optimizer += bytes;
    if (buffer.kind == BufferKind::Scratch) split.scratch += bytes;
  }
  if (!step.staging_bytes.empty()) split.staging = step.staging_bytes[device];
  if (!step.held_bytes.empty()) split.staging += step.held_bytes[device];
  split.activations = step.planned_bytes[device] - split.weights - split.gradients -
                      split.optimizer - split.scratch - split.staging;
  return split;
}

std::string stage_list(const engine::CompiledStep& step, int device) {
  std::string text;
  for (int s = 0; s < step.program.stages; ++s) {
    for (const int holder : holders_of(step.program, s)) {
      if (holder != step.place_of(device)) continue;
      const auto& segments = step.stages[s];
      if (!text.empty()) text += "; ";
      text += segments.front().name;
      if (segments.size() > 1) text += " .. " + segments.back().name;
    }
  }
  return text;
}

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

/// "1, 2 or 4": how many devices can share so many shards.
std::string degrees_of(std::int64_t shards) {
  if (!std::has_single_bit(static_cast<std::uint64_t>(shards))) return fmt::format("{}", shards);
  std::string text = "1";
  for (std::int64_t degree = 2; degree <= shards; degree *= 2)
    text += fmt::format("{}{}", degree == shards ? " or " : ", ", degree);
  return text;
}

/// What fixes the bits, and what does not.
std::string describe_grid(const train::Config& config) {
  const std::int64_t data = config.numerics.data_shards.value_or(*config.parallel.data);
  const std::int64_t tensor = config.numerics.tensor_shards.value_or(*config.parallel.tensor);
  const std::int64_t vision = config.numerics.vision_tensor_shards.value_or(tensor);
  std::string shards = counted(tensor, "tensor shard");
  std::string degrees = degrees_of(tensor);
  if (vision != tensor) {
    shards += fmt::format(" ({} of the tower)", vision);
    degrees += fmt::format(" ({} of the tower)", degrees_of(vision));
  }
  return fmt::format(
      "grid: {} x {}, microbatch {}; the same bits with data {}, tensor {} and any pipeline, "
      "schedule, zero, recompute and order\n",
      counted(data, "data shard"), shards, *config.train.microbatch, degrees_of(data), degrees);
}

}  // namespace

namespace {

/// What moves out of the devices' memory; nothing if nothing does.
std::string describe_outside(const engine::CompiledStep& step) {
  std::string text;
  for (int d = 0; d < step.devices(); ++d) {
    if (step.host_on(d) > 0)
      text += fmt::format("device {} passes messages through {} of the host's memory\n", d,
                          format_bytes(step.host_on(d)));
    if (step.outside_on(d) == 0) continue;
    text += fmt::format("device {} moves up to {} out, {}\n", d, format_bytes(step.outside_on(d)),
                        step.spill.empty() ? "into the host's memory" : "to " + step.spill);
  }
  return text;
}

/// Where no backward pass runs because nothing up to there learns: "embedding .. block 3".
std::string describe_front(const engine::CompiledStep& step) {
  const auto& segments = step.model.segments;
  const std::vector<bool> wants = wants_gradients(step.model);
  std::string names;
  for (std::size_t s = 0; s < wants.size(); ++s) {
    if (wants[s]) continue;
    const std::size_t first = s;
    while (s + 1 < wants.size() && !wants[s + 1]) ++s;
    names += (names.empty() ? "" : ", ") + segments[first].name;
    if (s > first) names += " .. " + segments[s].name;
  }
  return names.empty() ? "" : "; no backward pass in " + names;
}

/// What a run that trains a part of the model does without; nothing if it trains all.
std::string describe_training(const train::Config& config, const engine::CompiledStep& step) {
  if (config.trained.empty()) return "";
  train::Config all = config;
  all.trained.clear();
  all.model.vision.cached = false;
  all.devices.memory.clear();  // what would be needed, whether it fits or not
  const auto most = [](const engine::CompiledStep& compiled) {
    return std::ranges::max(compiled.planned_bytes);
  };
  return fmt::format("trains {} of them; the fullest device needs {} instead of {}{}\n",
                     trained_count(step.model.segments), format_bytes(most(step)),
                     format_bytes(most(train::compile_step(all, {.steps = step.input_counts}))),
                     describe_front(step));
}

/// What has no part in microbatches without optional inputs; nothing if all have them.
std::string describe_left_out(const engine::CompiledStep& step) {
  if (step.input_counts.empty()) return "";
  const std::vector<bool> optional = optional_segments(step.model);
  const auto first = std::ranges::find(optional, true) - optional.begin();
  const auto past = std::ranges::find(optional.begin() + first, optional.end(), false);
  return fmt::format(
      "leaves {} .. {} out of {:.1f} % of the microbatches, whose samples have no images; {}\n",
      step.model.segments[static_cast<std::size_t>(first)].name,
      step.model.segments[static_cast<std::size_t>(past - optional.begin() - 1)].name,
      100 * step.left_out(), counted(step.input_counts.size(), "program"));
}

/// What is done about the latency of links; nothing if nothing is.
std::string describe_look_ahead(const train::Config& config) {
  const std::int64_t receives = config.parallel.receive_ahead.value_or(1);
  const std::int64_t early = config.parallel.early.value_or(0);
  if (*config.parallel.pipeline == 1 || (receives == 1 && early == 0)) return "";
  std::string text =
      fmt::format("against latency receives are posted {} ahead", counted(receives, "instruction"));
  if (early > 0)
    text += fmt::format(", and devices begin {} early for each stage after their own",
                        early == 1 ? "1 microbatch" : fmt::format("{} microbatches", early));
  return text + "\n";
}

}  // namespace

std::string describe_plan(const train::Config& config, const engine::CompiledStep& step) {
  const schedule::Program& program = step.program;
  std::string text = fmt::format(
      "{} parameters, {}; {}, schedule {}, {} x {} x {} tokens per step "
      "(microbatches x sequences x length)\n",
      parameter_count(step.model), to_string(config.train.dtype), counted(step.devices(), "device"),
      program.schedule, program.microbatches * program.replicas, *config.train.microbatch,
      config.train.sequence);
  text += describe_training(config, step);
  text += describe_left_out(step);
  text += describe_owners(config);
  text += describe_look_ahead(config);
  text += describe_grid(config);
  if (!config.devices.emulate)
    text += fmt::format("bits {}\n", train::describe_bits(config, ops::instruction_set()));
  std::vector<std::vector<std::string>> rows = {{"device", "stages", "weights", "gradients",
                                                 "optimizer", "activations", "scratch", "saving",
                                                 "planned", "budget"}};
  for (int d = 0; d < step.devices(); ++d) {
    const MemorySplit split = split_of(step, step.place_of(d));
    rows.push_back({fmt::format("{}", d), stage_list(step, d), format_bytes(split.weights),
                    format_bytes(split.gradients), format_bytes(split.optimizer),
                    format_bytes(split.activations), format_bytes(split.scratch),
                    format_bytes(split.staging), format_bytes(step.planned_on(d)),
                    step.budgets.empty() ? "none" : format_bytes(step.budgets[d])});
  }
  return text + report::text_table(rows) + describe_outside(step);
}

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
    if (report.predicted_step_seconds) {
      text += fmt::format(", predicted {}", format_seconds(*report.predicted_step_seconds));
    }
    text += fmt::format(", bubble {}, idle {}\n", format_share(report.bubble),
                        format_share(report.idle));
  }
  std::vector<std::vector<std::string>> rows = {
      {"device", "parameters", "busy", "wait", "sent/step", "peak", "planned"}};
  for (std::size_t d = 0; d < report.devices.size(); ++d) {
    const train::DeviceReport& device = report.devices[d];
    rows.push_back({fmt::format("{}", d), fmt::format("{}", device.parameters),
                    format_seconds(device.busy), format_seconds(device.wait),
                    format_bytes(device.sent.total()), fmt::format("{} B", device.peak_bytes),
                    fmt::format("{} B", device.planned_bytes)});
  }
  text += describe_rounds(report);
  text += report::text_table(rows);
  text += describe_overlaps(report.devices);
  if (report.weights.empty()) return text + "emulated: no loss, no weights, nothing saved\n";
  return text + fmt::format("weights {}, saved in {}\n", report.weights, report.checkpoint);
}

namespace {

/// 0 stands for "not known".
nlohmann::json optional_bytes(std::int64_t bytes) {
  return bytes == 0 ? nlohmann::json() : nlohmann::json(bytes);
}

nlohmann::json to_json(const comm::Sent& sent) {
  return {{"messages", sent.message},
          {"reduce", sent.reduce},
          {"gather", sent.gather},
          {"numbers", sent.numbers}};
}

}  // namespace

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
