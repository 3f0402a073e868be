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
#include "cleave/plan/tune/partition.h"
#include "cleave/schedule/generators.h"
#include "cleave/spec/trainable.h"
#include "cleave/train/step/emulation.h"
#include "cleave/train/step/trainer.h"

namespace cleave::train {
namespace {

using plan::Region;
using schedule::Recompute;

/// Of the block of a part; what comes before the blocks and after them is never computed again.
Recompute kind_of(const Config& config, std::size_t part) {
  const auto& kinds = *config.parallel.recompute;
  if (part == 0 || part > static_cast<std::size_t>(config.model.blocks())) return Recompute::None;
  return kinds.size() == 1 ? kinds[0] : kinds[part - 1];
}

/// The model as it is compiled: where no gradient is wanted, nothing is kept for one.
Graph compiled_model(const Config& config) {
  Graph model = model_of(config);
  leave_out_unwanted(model);
  return model;
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

/// [stage][replica] -> place.
std::vector<std::vector<int>> places_of_stages(const Config& config) {
  const std::string& name = config.parallel.schedule;
  const auto pipeline = static_cast<int>(*config.parallel.pipeline);
  auto placement =
      schedule::generate(
          name == "auto" ? schedule::plainest_schedule(1).name : name,
          {.devices = pipeline, .chunks = static_cast<int>(config.parallel.chunks.value_or(0))})
          .placement;
  for (std::vector<int>& places : placement) {
    for (int replica = 1; replica < *config.parallel.data; ++replica)
      places.push_back(places.front() + replica * pipeline);
  }
  return placement;
}

/// The name that the head's weight is tied to, if the two ends of the model share a device.
std::vector<std::string> shared_ends(const Config& config, const Graph& model) {
  const std::vector<std::vector<int>> placement = places_of_stages(config);
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

double AutoCosts::recompute_of(const Config& config, std::size_t part) {
  const Recompute kind = kind_of(config, part);
  if (kind == Recompute::None || config.devices.emulate) return 0;
  const auto key = std::pair(*config.train.microbatch, kind);
  auto found = recompute_.find(key);
  if (found == recompute_.end())
    found = recompute_.emplace(key, profile_recompute(config, kind, launcher_)).first;
  const std::vector<double>& blocks = found->second;
  return blocks.size() == 1 ? blocks[0] : blocks[part - 1];
}

double AutoCosts::at_once(const Config& config) {
  if (config.devices.emulate) return 0;
  if (facts_.at_once > 0)
    return std::min(facts_.at_once, static_cast<double>(config.devices.count));
  if (at_once_ >= 0) return at_once_;
  return at_once_ =
             engine::devices_at_once(launcher_.processes(), static_cast<int>(config.devices.count),
                                     static_cast<int>(config.devices.threads));
}

double AutoCosts::crowd(const Config& config) {
  if (config.devices.emulate) return 1;
  return std::max(1.0, static_cast<double>(config.devices.count) / at_once(config));
}

/// A sum is made of messages, there and back.
plan::LinkCosts AutoCosts::sum_within(const Config& config, Group group) {
  plan::LinkCosts sum = profile_of(config).sum;
  if (!facts_.knows_links()) return sum;
  const Mesh mesh = compile_options(config).layout.mesh();
  const plan::LinkCosts link =
      group == Group::Tensor ? facts_.within_places(mesh) : facts_.among_replicas(mesh);
  return {.latency = std::max(sum.latency, 2 * link.latency),
          .per_byte = std::max(sum.per_byte, link.per_byte)};
}

double AutoCosts::exchange(const Config& config, Group group, double bytes) {
  const plan::LinkCosts sum = sum_within(config, group);
  return sum.latency + sum.per_byte * bytes;
}

/// Between two stages, of whose replicas the slowest counts.
plan::LinkCosts AutoCosts::link_between(const Config& config, std::span<const int> from,
                                        std::span<const int> to) {
  if (!facts_.knows_links()) return profile_of(config).link;
  const Mesh mesh = compile_options(config).layout.mesh();
  plan::LinkCosts slowest;
  for (std::size_t replica = 0; replica < from.size(); ++replica) {
    const plan::LinkCosts link = facts_.between(mesh, from[replica], to[replica]);
    slowest = {.latency = std::max(slowest.latency, link.latency),
               .per_byte = std::max(slowest.per_byte, link.per_byte)};
  }
  return slowest;
}

double AutoCosts::speed_at(const Config& config, int place) const {
  return least_at(config, config.devices.speed, place, 1.0) *
         least_at(config, facts_.speed, place, 1.0);
}

/// A tensor group adds up x twice in F and twice in I, and a sum goes there and comes back.
plan::StageCosts AutoCosts::time_of(const Config& config, std::size_t part) {
  const SegmentProfile& profile = profile_of(config);
  const auto last = static_cast<std::size_t>(config.model.blocks()) + 1;
  plan::StageCosts time = part == 0      ? profile.embedding
                          : part == last ? profile.head
                                         : profile.block(part - 1);
  const double tensor = static_cast<double>(*config.parallel.tensor);
  const double sums = tensor_sums(config) / 2 /
                      static_cast<double>(compile_options(config).microbatches * (last + 1));
  time.forward = time.forward / tensor + sums;
  time.input = time.input / tensor + sums;
  time.weight /= tensor;
  time.recompute = recompute_of(config, part) / tensor;
  return time;
}

double AutoCosts::tensor_sums(const Config& config) {
  if (*config.parallel.tensor == 1) return 0;
  const ModelShape& m = config.model;
  const std::int64_t samples = *config.train.microbatch * size_of(config.train.dtype);
  const double x = static_cast<double>(samples * config.train.sequence * m.hidden);
  double sums = exchange(config, Group::Tensor, x) * (static_cast<double>(m.layers) + 2);
  if (m.vision.layers > 0) {
    const std::int64_t images = std::max<std::int64_t>(1, config.data.images);
    const double rows = static_cast<double>(samples * images * m.patches() * m.vision.hidden);
    sums += exchange(config, Group::Tensor, rows) * static_cast<double>(m.blocks() - m.layers);
  }
  return 8 * sums * compile_options(config).microbatches;
}

plan::PartitionProblem AutoCosts::problem(const Config& config) {
  const Graph model = compiled_model(config);
  const std::vector<std::string> resident = shared_ends(config, model);
  plan::PartitionProblem problem;
  std::size_t segment = 0;
  for (const std::int64_t segments : plan::parts_of(model)) {
    const std::size_t part = problem.segments.size();
    plan::SegmentWork work{.time = time_of(config, part)};
    work.time.input += work.time.recompute;
    for (std::int64_t k = 0; k < segments; ++k, ++segment) {
      const SegmentSpec& spec = model.segments[segment];
      work.state += state_bytes(config, spec, resident);
      work.kept += kept_bytes(spec, spec.block ? kind_of(config, part) : Recompute::None,
                              *config.parallel.tensor);
    }
    problem.segments.push_back(work);
  }
  for (int place = 0; place < *config.parallel.pipeline; ++place) {
    problem.devices.push_back({.speed = speed_at(config, place),
                               .memory = least_at(config, config.devices.memory, place,
                                                  std::numeric_limits<std::int64_t>::max())});
  }
  const std::string& name = config.parallel.schedule;
  problem.schedule = name == "auto" ? schedule::plainest_schedule(1).name : name;
  problem.chunks = static_cast<int>(config.parallel.chunks.value_or(0));
  problem.microbatches = compile_options(config).microbatches;
  problem.message_bytes = model.segments.back().layers.front().x.bytes();
  const std::vector<std::vector<int>> places = places_of_stages(config);
  for (std::size_t s = 1; s < places.size(); ++s)
    problem.links.push_back(link_between(config, places[s - 1], places[s]));
  problem.at_once =
      at_once(config) / static_cast<double>(*config.parallel.data * *config.parallel.tensor);
  return problem;
}

double AutoCosts::after_pipeline(const Config& config) {
  if (config.devices.emulate) return 0;
  const SegmentProfile& profile = profile_of(config);
  const double parameters =
      static_cast<double>(trained_count(model_of(config).segments)) /
      static_cast<double>(*config.parallel.pipeline * *config.parallel.tensor);
  const double data = static_cast<double>(*config.parallel.data);
  const bool shared = *config.parallel.zero > 0;
  const double away =
      data == 1 ? 0 : sum_within(config, Group::Replicas).per_byte * parameters * (data - 1) / data;
  const double back = shared ? static_cast<double>(size_of(config.train.dtype)) : 4;
  return crowd(config) *
         (parameters * (profile.norm + profile.step / (shared ? data : 1)) + (4 + back) * away);
}

bool AutoCosts::holds_a_block(const Config& config) {
  if (config.devices.memory.empty()) return true;
  std::int64_t most = 0;
  for (const SegmentSpec& segment : compiled_model(config).segments) {
    if (segment.block)
      most = std::max(most, kept_bytes(segment, Recompute::Selective, *config.parallel.tensor));
  }
  return most <= std::ranges::max(config.devices.memory);
}

double AutoCosts::bound(const Config& config) {
  double work = 0;
  for (std::size_t part = 0; part < static_cast<std::size_t>(config.model.blocks()) + 2; ++part) {
    const plan::StageCosts time = time_of(config, part);
    work += time.forward + time.input + time.weight;
  }
  work *= compile_options(config).microbatches;
  double speed = 0;
  for (int place = 0; place < *config.parallel.pipeline; ++place) speed += speed_at(config, place);
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
  for (const schedule::Edge& edge : program.edges)
    costs.edges.push_back(
        link_between(config, program.placement[edge.from], program.placement[edge.to]));
  costs.steps.assign(program.devices, 0);
  const std::vector<std::int64_t> parts = plan::parts_of(step.model);
  std::size_t part = 0;
  std::int64_t of_part = 0;  // segments of it that are in the stages so far
  for (int s = 0; s < program.stages; ++s) {
    plan::StageCosts stage;
    double parameters = 0;
    double longest = 0;
    for (const SegmentSpec& spec : step.stages[s]) {
      if (of_part == 0) {
        const plan::StageCosts time = time_of(config, part);
        stage.forward += time.forward;
        stage.input += time.input;
        stage.weight += time.weight;
        longest = std::max(longest, time.recompute);
      }
      if (++of_part == parts[part]) {
        ++part;
        of_part = 0;
      }
      parameters += static_cast<double>(trained_count({&spec, 1})) / tensor;
    }
    const double speed = speed_at(config, program.placement[s].front() % step.mesh.pipeline);
    for (double* each : {&stage.forward, &stage.input, &stage.weight, &longest}) *each /= speed;
    const double away = parameters * (data - 1) / data;
    const double values = static_cast<double>(size_of(config.train.dtype));
    // A segment takes an equal share of its stage, and only blocks run R.
    stage.recompute = longest * static_cast<double>(step.stages[s].size());
    stage.reduce = data > 1 ? exchange(config, Group::Replicas, (step.zero > 0 ? 4 : 8) * away) : 0;
    stage.gather = step.zero > 0 ? exchange(config, Group::Replicas, values * away) : 0;
    costs.stages.push_back(stage);
    const double update = parameters * profile.step / (step.zero > 0 ? data : 1) / speed;
    for (const int device : program.placement[s]) costs.steps[device] += update;
    costs.norm = std::max(costs.norm, parameters * profile.norm / speed);
  }
  for (const schedule::Tie& tie : program.ties) {
    const auto &first = program.placement[tie.first], &second = program.placement[tie.second];
    plan::LinkCosts sum = profile.sum;
    if (facts_.knows_links()) sum = link_between(config, first, second);
    const double once = sum.latency + sum.per_byte * static_cast<double>(tie.bytes);
    costs.ties.push_back(first == second ? 0 : 2 * once);
  }
  return costs;
}

}  // namespace cleave::train
