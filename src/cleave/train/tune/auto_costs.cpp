#include "cleave/train/tune/auto_costs.h"

#include <algorithm>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "cleave/engine/measure/devices_at_once.h"
#include "cleave/engine/stage/gradient_sync.h"
#include "cleave/plan/memory/stage_layout.h"
#include "cleave/plan/memory/state_layout.h"
#include "cleave/schedule/generators.h"
#include "cleave/train/step/emulation.h"
#include "cleave/train/step/trainer.h"

namespace cleave::train {
namespace {

using plan::Region;
using schedule::Recompute;

/// Of block number `segment` - 1; the embedding and the head are never computed again.
Recompute kind_of(const Config& config, std::size_t segment) {
  const auto& kinds = *config.parallel.recompute;
  if (segment == 0 || segment > static_cast<std::size_t>(config.model.layers))
    return Recompute::None;
  return kinds.size() == 1 ? kinds[0] : kinds[segment - 1];
}

std::int64_t kept_bytes(const SegmentSpec& segment, Recompute kind, std::int64_t tensor) {
  const plan::Keep keep =
      kind == Recompute::Selective ? plan::Keep::Costly : plan::Keep::Everything;
  const plan::StageLayout layout = plan::layout_stage(std::span(&segment, 1), plan::kWithin, keep);
  const std::int64_t x = layout.bytes_of(Region::Input);
  if (kind == Recompute::Full) return x;
  return (layout.bytes_of(Region::KeptForInput) + layout.bytes_of(Region::KeptForWeight)) / tensor +
         x;
}

/// The name that the head's weight is tied to, if the two ends of the model share a device.
std::vector<std::string> shared_ends(const Config& config, const Graph& model) {
  const std::string& name = config.parallel.schedule;
  const auto placement =
      schedule::generate(name == "auto" ? schedule::plainest_schedule(1).name : name,
                         {.devices = static_cast<int>(*config.parallel.pipeline),
                          .chunks = static_cast<int>(config.parallel.chunks.value_or(0))})
          .placement;
  std::vector<std::string> names;
  if (placement.front() != placement.back()) return names;
  for (const LayerSpec& layer : model.segments.back().layers) {
    for (const ParameterSpec& parameter : layer.parameters) {
      if (!parameter.tied_to.empty()) names.push_back(parameter.tied_to);
    }
  }
  return names;
}

std::int64_t state_bytes(const Config& config, const SegmentSpec& segment,
                         std::span<const std::string> resident) {
  const std::int64_t data = *config.parallel.data;
  const engine::ShardFold fold{
      .microbatches = compile_options(config).microbatches,
      .shards = static_cast<int>(config.numerics.data_shards.value_or(data) / data)};
  const plan::StateLayout state =
      plan::layout_state(std::span(&segment, 1), {.dtype = config.train.dtype,
                                                  .resident = resident,
                                                  .sums = fold.sums(),
                                                  .zero = static_cast<int>(*config.parallel.zero),
                                                  .replicas = static_cast<int>(data)});
  return (state.weights + state.gradients + state.optimizer) / *config.parallel.tensor;
}

/// What the devices at `place` of the pipeline, in all replicas, have in common: the least.
template <class T>
T least_at(const Config& config, const std::vector<T>& values, int place, T otherwise) {
  if (values.empty()) return otherwise;
  if (values.size() == 1) return values[0];
  const Mesh mesh = compile_options(config).layout.mesh();
  T least = std::numeric_limits<T>::max();
  for (int at = place; at < mesh.places(); at += mesh.pipeline) {
    for (const int device : mesh.group_at(at)) least = std::min(least, values[device]);
  }
  return least;
}

}  // namespace

const SegmentProfile& AutoCosts::profile_of(const Config& config) {
  // Emulated devices may take the same whatever the microbatch, but not whatever the pipeline.
  const bool by_device = config.devices.emulate && !config.devices.emulate->per_layer;
  const std::int64_t key = by_device ? *config.parallel.pipeline : *config.train.microbatch;
  const auto found = profiles_.find(key);
  if (found != profiles_.end()) return found->second;
  return profiles_.emplace(key, profile_segments(config, launcher_)).first->second;
}

double AutoCosts::recompute_of(const Config& config, std::size_t segment) {
  const Recompute kind = kind_of(config, segment);
  if (kind == Recompute::None || config.devices.emulate) return 0;
  const auto key = std::pair(*config.train.microbatch, kind);
  auto found = recompute_.find(key);
  if (found == recompute_.end())
    found = recompute_.emplace(key, profile_recompute(config, kind, launcher_)).first;
  const std::vector<double>& blocks = found->second;
  return blocks.size() == 1 ? blocks[0] : blocks[segment - 1];
}

double AutoCosts::at_once(const Config& config) {
  if (config.devices.emulate) return 0;
  if (at_once_ >= 0) return at_once_;
  return at_once_ =
             engine::devices_at_once(launcher_.processes(), static_cast<int>(config.devices.count),
                                     static_cast<int>(config.devices.threads));
}

double AutoCosts::crowd(const Config& config) {
  if (config.devices.emulate) return 1;
  return std::max(1.0, static_cast<double>(config.devices.count) / at_once(config));
}

double AutoCosts::exchange(const Config& config, double bytes) {
  const plan::LinkCosts& sum = profile_of(config).sum;
  return sum.latency + sum.per_byte * bytes;
}

/// A tensor group adds up x twice in F and twice in I, and a sum goes there and comes back.
plan::StageCosts AutoCosts::time_of(const Config& config, std::size_t segment) {
  const SegmentProfile& profile = profile_of(config);
  const auto last = static_cast<std::size_t>(config.model.layers) + 1;
  plan::StageCosts time = segment == 0      ? profile.embedding
                          : segment == last ? profile.head
                                            : profile.block(segment - 1);
  const double tensor = static_cast<double>(*config.parallel.tensor);
  const double sums = tensor_sums(config) / 2 /
                      static_cast<double>(compile_options(config).microbatches * (last + 1));
  time.forward = time.forward / tensor + sums;
  time.input = time.input / tensor + sums;
  time.weight /= tensor;
  time.recompute = recompute_of(config, segment) / tensor;
  return time;
}

double AutoCosts::tensor_sums(const Config& config) {
  if (*config.parallel.tensor == 1) return 0;
  const double x = static_cast<double>(*config.train.microbatch * config.train.sequence *
                                       config.model.hidden * size_of(config.train.dtype));
  const double segments = static_cast<double>(config.model.layers) + 2;
  return 8 * exchange(config, x) * segments * compile_options(config).microbatches;
}

plan::PartitionProblem AutoCosts::problem(const Config& config) {
  const Graph model = model_of(config);
  const std::vector<std::string> resident = shared_ends(config, model);
  plan::PartitionProblem problem;
  for (std::size_t s = 0; s < model.segments.size(); ++s) {
    plan::StageCosts time = time_of(config, s);
    time.input += time.recompute;
    problem.segments.push_back(
        {.time = time,
         .state = state_bytes(config, model.segments[s], resident),
         .kept = kept_bytes(model.segments[s], kind_of(config, s), *config.parallel.tensor)});
  }
  for (int place = 0; place < *config.parallel.pipeline; ++place) {
    problem.devices.push_back({.speed = least_at(config, config.devices.speed, place, 1.0),
                               .memory = least_at(config, config.devices.memory, place,
                                                  std::numeric_limits<std::int64_t>::max())});
  }
  const std::string& name = config.parallel.schedule;
  problem.schedule = name == "auto" ? schedule::plainest_schedule(1).name : name;
  problem.chunks = static_cast<int>(config.parallel.chunks.value_or(0));
  problem.microbatches = compile_options(config).microbatches;
  problem.message_bytes = model.segments[1].layers.front().x.bytes();
  const std::int64_t stages = *config.parallel.pipeline * config.parallel.chunks.value_or(1);
  problem.links.assign(static_cast<std::size_t>(stages - 1), profile_of(config).link);
  problem.at_once =
      at_once(config) / static_cast<double>(*config.parallel.data * *config.parallel.tensor);
  return problem;
}

double AutoCosts::after_pipeline(const Config& config) {
  if (config.devices.emulate) return 0;
  const SegmentProfile& profile = profile_of(config);
  const double parameters =
      static_cast<double>(parameter_count(model_of(config))) /
      static_cast<double>(*config.parallel.pipeline * *config.parallel.tensor);
  const double data = static_cast<double>(*config.parallel.data);
  const bool shared = *config.parallel.zero > 0;
  const double away = profile.sum.per_byte * parameters * (data - 1) / data;
  const double back = shared ? static_cast<double>(size_of(config.train.dtype)) : 4;
  return crowd(config) *
         (parameters * (profile.norm + profile.step / (shared ? data : 1)) + (4 + back) * away);
}

bool AutoCosts::holds_a_block(const Config& config) {
  if (config.devices.memory.empty()) return true;
  const Graph model = model_of(config);
  return kept_bytes(model.segments[1], Recompute::Selective, *config.parallel.tensor) <=
         std::ranges::max(config.devices.memory);
}

double AutoCosts::bound(const Config& config) {
  double work = 0;
  for (std::size_t s = 0; s < static_cast<std::size_t>(config.model.layers) + 2; ++s) {
    const plan::StageCosts time = time_of(config, s);
    work += time.forward + time.input + time.weight;
  }
  work *= compile_options(config).microbatches;
  double speed = 0;
  for (int place = 0; place < *config.parallel.pipeline; ++place)
    speed += least_at(config, config.devices.speed, place, 1.0);
  if (config.devices.emulate) return work / speed;
  const double sharing =
      static_cast<double>(*config.parallel.data * *config.parallel.tensor) / at_once(config);
  return work * std::max(1 / speed, sharing);
}

plan::Costs AutoCosts::costs(const Config& config, const engine::CompiledStep& step) {
  if (config.devices.emulate) return emulated_costs(config, step.program);
  const SegmentProfile& profile = profile_of(config);
  const schedule::Program& program = step.program;
  const double data = static_cast<double>(*config.parallel.data);
  const double tensor = static_cast<double>(*config.parallel.tensor);
  plan::Costs costs;
  costs.edges.assign(program.edges.size(), profile.link);
  costs.steps.assign(program.devices, 0);
  std::size_t segment = 0;
  for (int s = 0; s < program.stages; ++s) {
    plan::StageCosts stage;
    double parameters = 0;
    double longest = 0;
    for (const SegmentSpec& spec : step.stages[s]) {
      const plan::StageCosts time = time_of(config, segment++);
      stage.forward += time.forward;
      stage.input += time.input;
      stage.weight += time.weight;
      longest = std::max(longest, time.recompute);
      parameters += static_cast<double>(parameter_count(spec)) / tensor;
    }
    const double away = parameters * (data - 1) / data;
    const double values = static_cast<double>(size_of(config.train.dtype));
    // A segment takes an equal share of its stage, and only blocks run R.
    stage.recompute = longest * static_cast<double>(step.stages[s].size());
    stage.reduce = data > 1 ? exchange(config, (step.zero > 0 ? 4 : 8) * away) : 0;
    stage.gather = step.zero > 0 ? exchange(config, values * away) : 0;
    costs.stages.push_back(stage);
    const double update = parameters * profile.step / (step.zero > 0 ? data : 1);
    for (const int device : program.placement[s]) costs.steps[device] += update;
    costs.norm = std::max(costs.norm, parameters * profile.norm);
  }
  for (const schedule::Tie& tie : program.ties) {
    const bool alone = program.placement[tie.first] == program.placement[tie.second];
    costs.ties.push_back(alone ? 0 : 2 * exchange(config, static_cast<double>(tie.bytes)));
  }
  return costs;
}

}  // namespace cleave::train
