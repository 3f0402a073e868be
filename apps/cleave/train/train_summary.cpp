#include "train/train_summary.h"

#include <algorithm>
#include <array>
#include <bit>

#include "edge/edge_summary.h"
#include "words.h"
#include <fmt/format.h>

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

std::string stages_on(const engine::CompiledStep& step, int device) {
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

namespace {

/// What moves out of the devices' memory; nothing if nothing does.
std::string describe_outside(const engine::CompiledStep& step) {
  std::string text;
  for (int d = 0; d < step.devices(); ++d) {
    if (step.host_on(d) > 0)
      text += fmt::format("device {} passes messages and sums through {} of the host's memory\n", d,
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
                     rounded_count(trained_count(step.model.segments)), format_bytes(most(step)),
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
      rounded_count(parameter_count(step.model)), to_string(config.train.dtype),
      counted(step.devices(), "device"), program.schedule, program.microbatches * program.replicas,
      *config.train.microbatch, config.train.sequence);
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
    rows.push_back({fmt::format("{}", d), stages_on(step, d), format_bytes(split.weights),
                    format_bytes(split.gradients), format_bytes(split.optimizer),
                    format_bytes(split.activations), format_bytes(split.scratch),
                    format_bytes(split.staging), format_bytes(step.planned_on(d)),
                    step.budgets.empty() ? "none" : format_bytes(step.budgets[d])});
  }
  return text + report::text_table(rows) + describe_outside(step);
}

}  // namespace cleave::app
