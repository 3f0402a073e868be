#include "cleave/train/tune/auto_costs.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>
#include <string>

#include "cleave/plan/tune/partition.h"
#include "cleave/plan/tune/stage_gradients.h"
#include "cleave/schedule/generators.h"
#include "cleave/schedule/program_file.h"
#include "cleave/spec/trainable.h"
#include "cleave/train/step/emulation.h"
#include "cleave/train/step/trainer.h"
#include "cleave/train/tune/part_memory.h"

namespace cleave::train {

using schedule::Recompute;

namespace {

/// A pipeline as the named schedule that comes nearest has it.
schedule::Program named_program(const plan::Layout& layout) {
  const bool open = layout.schedule == "auto" || schedule::names_file(layout.schedule);
  return schedule::generate(
      open ? schedule::plainest_schedule(std::max(1, layout.chunks)).name : layout.schedule,
      {.devices = layout.pipeline, .chunks = layout.chunks});
}

/// What the devices at `place` of the pipeline, in all replicas, have in common: the least.
template <class T>
T least_at(const Mesh& mesh, const std::vector<T>& values, int place, T otherwise) {
  if (values.empty()) return otherwise;
  if (values.size() == 1) return values[0];
  T least = std::numeric_limits<T>::max();
  for (int at = place; at < mesh.places(); at += mesh.pipeline) {
    for (const int device : mesh.group_at(at)) least = std::min(least, values[device]);
  }
  return least;
}

}  // namespace

LayoutCosts::LayoutCosts(const Config& config, DeviceCosts& devices)
    : config_(config),
      devices_(devices),
      options_(compile_options(config)),
      layout_(options_.layout),
      mesh_(layout_.mesh()) {}

double LayoutCosts::crowd() {
  if (config_.devices.emulate) return 1;
  return std::max(1.0, static_cast<double>(config_.devices.count) / devices_.at_once(config_));
}

double LayoutCosts::recompute_of(std::size_t part) {
  const Recompute kind = recompute_of_part(config_, part);
  if (kind == Recompute::None || config_.devices.emulate) return 0;
  return devices_.profile_of(config_, kind).parts[part].recompute;
}

/// A sum is made of messages, there and back.
plan::LinkCosts LayoutCosts::sum_within(Group group) {
  const plan::LinkCosts& sum = devices_.profile_of(config_).sum;
  const DeviceFacts& facts = devices_.facts();
  if (!facts.knows_links()) return sum;
  plan::LinkCosts link =
      group == Group::Tensor ? facts.within_places(mesh_) : facts.among_replicas(mesh_);
  link.latency *= 2;
  return slower(sum, link);
}

/// The link between two stages, of whose replicas the slowest counts.
plan::LinkCosts LayoutCosts::link_between(std::span<const int> from, std::span<const int> to) {
  if (!devices_.facts().knows_links()) return devices_.profile_of(config_).link;
  plan::LinkCosts slowest;
  for (std::size_t replica = 0; replica < from.size(); ++replica)
    slowest = slower(slowest, devices_.facts().between(mesh_, from[replica], to[replica]));
  return slowest;
}

/// The links between each stage and the next; `placement` is that of the first replica.
std::vector<plan::LinkCosts> LayoutCosts::links_of_stages(
    const std::vector<std::vector<int>>& placement) {
  const auto replicas = [&](std::size_t stage) {
    std::vector<int> places;
    for (int replica = 0; replica < layout_.data; ++replica)
      places.push_back(placement[stage][0] + replica * layout_.pipeline);
    return places;
  };
  std::vector<plan::LinkCosts> links;
  for (std::size_t s = 1; s < placement.size(); ++s)
    links.push_back(link_between(replicas(s - 1), replicas(s)));
  return links;
}

double LayoutCosts::slowest_latency() {
  if (!devices_.are_apart(config_)) return 0;
  double slowest = 0;
  for (const plan::LinkCosts& link : links_of_stages(named_program(layout_).placement))
    slowest = std::max(slowest, link.latency);
  return slowest;
}

double LayoutCosts::speed_at(int place) const {
  return least_at(mesh_, config_.devices.speed, place, 1.0) *
         least_at(mesh_, devices_.facts().speed, place, 1.0) *
         least_at(mesh_, devices_.kinds_of(config_).speed, place, 1.0);
}

/// A tensor group adds up x twice in F and twice in I, and a sum goes there and comes back.
plan::StageCosts LayoutCosts::time_of(std::size_t part) {
  const std::vector<plan::StageCosts>& parts = devices_.profile_of(config_).parts;
  const double sums =
      tensor_sums() / 2 / (options_.microbatches * static_cast<double>(parts.size()));
  const double devices = config_.devices.emulate ? 1 : layout_.tensor;  // that share a layer
  return {.forward = parts[part].forward / devices + sums,
          .input = parts[part].input / devices + sums,
          .weight = parts[part].weight / devices,
          .recompute = recompute_of(part) / devices};
}

double LayoutCosts::tensor_sums() {
  if (layout_.tensor == 1) return 0;
  const ModelShape& m = config_.model;
  const plan::LinkCosts sum = sum_within(Group::Tensor);
  const std::int64_t samples = layout_.microbatch * size_of(config_.train.dtype);
  const std::int64_t x = samples * config_.train.sequence * m.hidden;
  double sums = sum.seconds(x) * (static_cast<double>(m.layers) + 2);
  if (m.vision.layers > 0) {
    const std::int64_t images = std::max<std::int64_t>(1, config_.data.images);
    const std::int64_t rows = samples * images * m.patches() * m.vision.hidden;
    sums += sum.seconds(rows) * static_cast<double>(m.blocks() - m.layers);
  }
  return 8 * sums * options_.microbatches;
}

plan::PartitionProblem LayoutCosts::problem() {
  const schedule::Program named = named_program(layout_);
  plan::PartitionProblem problem{.segments = part_memory(config_, named.placement),
                                 .devices = {},
                                 .schedule = named.schedule,
                                 .microbatches = options_.microbatches,
                                 .chunks = layout_.chunks,
                                 .message_bytes = bytes_between_blocks(config_)};
  for (std::size_t part = 0; part < problem.segments.size(); ++part) {
    plan::StageCosts& time = problem.segments[part].time;
    time = time_of(part);
    time.input += time.recompute;
  }
  for (int place = 0; place < layout_.pipeline; ++place) {
    constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();
    problem.devices.push_back(
        {.speed = speed_at(place),
         .memory = std::min(least_at(mesh_, config_.devices.memory, place, kNoLimit),
                            least_at(mesh_, devices_.kinds_of(config_).memory, place, kNoLimit))});
  }
  problem.links = links_of_stages(named.placement);
  problem.graph = plan::part_edges(model_of(config_));
  problem.at_once = devices_.at_once(config_) / (layout_.data * layout_.tensor);
  return problem;
}

double LayoutCosts::after_pipeline() {
  if (config_.devices.emulate) return 0;
  const SegmentProfile& profile = devices_.profile_of(config_);
  const double parameters = static_cast<double>(trained_count(model_of(config_).segments)) /
                            (layout_.pipeline * layout_.tensor);
  const double data = layout_.data;
  const bool shared = layout_.zero > 0;
  const double away =
      data == 1 ? 0 : sum_within(Group::Replicas).per_byte * parameters * (data - 1) / data;
  const double back = shared ? static_cast<double>(size_of(config_.train.dtype)) : 4;
  return crowd() *
         (parameters * (profile.norm + profile.step / (shared ? data : 1)) + (4 + back) * away);
}

double LayoutCosts::bound() {
  std::vector<double> work;  // [part] seconds of a microbatch
  const std::vector<schedule::GradientKind> gradients = plan::part_gradients(model_of(config_));
  for (std::size_t part = 0; part < gradients.size(); ++part)
    work.push_back(plan::passes_run(time_of(part), gradients[part]));
  if (layout_.replicas_differ()) return bound_apart(work);
  const double all = std::accumulate(work.begin(), work.end(), 0.0) * options_.microbatches;
  double speed = 0;
  for (int place = 0; place < layout_.pipeline; ++place) speed += speed_at(place);
  if (config_.devices.emulate) return all / speed;
  const double sharing = layout_.data * layout_.tensor / devices_.at_once(config_);
  return all * std::max(1 / speed, sharing);
}

/// Where modules have replicas of their own, each is bound by its own devices.
double LayoutCosts::bound_apart(std::span<const double> work) {
  const std::int64_t of_encoder = 1 + config_.model.blocks() - config_.model.layers;
  const double microbatches = options_.microbatches * layout_.replicas() / layout_.copies();
  const std::vector<int> replicas = layout_.replicas_of_stages();
  double seconds = 0, all = 0;
  int stage = 0, place = 0;
  const auto add_module = [&](std::span<const double> parts, int last_stage) {
    double speed = 0;
    for (; stage < last_stage; ++stage)
      for (int replica = 0; replica < replicas[stage]; ++replica) speed += speed_at(place++);
    const double module = std::accumulate(parts.begin(), parts.end(), 0.0) * microbatches;
    seconds = std::max(seconds, module / speed);
    all += module;
  };
  add_module(work.first(of_encoder), layout_.encoder_stages);
  add_module(work.subspan(of_encoder), layout_.pipeline);
  if (config_.devices.emulate) return seconds;
  return std::max(seconds, all * layout_.copies() * layout_.tensor / devices_.at_once(config_));
}

/// [segment] of the model on devices of speed 1. Segments of a part have shares of its time by
/// their operations; R is that of the whole part.
std::vector<plan::StageCosts> LayoutCosts::segment_costs(const Graph& model) {
  std::vector<plan::StageCosts> segments;
  std::size_t part = 0;
  for (const std::int64_t count : plan::parts_of(model)) {
    const auto members = std::span(model.segments).subspan(segments.size(), count);
    double operations = 0;
    for (const SegmentSpec& each : members) operations += static_cast<double>(flops(each));
    const plan::StageCosts time = time_of(part++);
    for (const SegmentSpec& each : members) {
      const double share = operations > 0 ? static_cast<double>(flops(each)) / operations
                                          : 1 / static_cast<double>(count);
      segments.push_back({.recompute = time.recompute});
      segments.back().add_passes(time, share);
    }
  }
  return segments;
}

/// What a stage takes on devices of speed 1, with so many parameters and replicas.
plan::StageCosts LayoutCosts::stage_costs(std::span<const plan::StageCosts> segments,
                                          double parameters, int replicas) {
  plan::StageCosts stage;
  for (const plan::StageCosts& segment : segments) {
    stage.add_passes(segment);
    stage.recompute = std::max(stage.recompute, segment.recompute);
  }
  const double away = parameters * (replicas - 1) / replicas;
  const auto exchanged = [&](std::int64_t bytes_each) {
    const plan::LinkCosts sum = sum_within(Group::Replicas);
    return sum.latency + sum.per_byte * static_cast<double>(bytes_each) * away;
  };
  if (replicas > 1) stage.reduce = exchanged(layout_.zero > 0 ? 4 : 8);
  if (layout_.zero > 0) stage.gather = exchanged(size_of(config_.train.dtype));
  return stage;
}

plan::Costs LayoutCosts::costs(const engine::CompiledStep& step) {
  if (config_.devices.emulate) return emulated_costs(config_, step.program);
  const SegmentProfile& profile = devices_.profile_of(config_);
  const schedule::Program& program = step.program;
  plan::Costs costs;
  for (const schedule::Edge& edge : program.edges)
    costs.edges.push_back(link_between(program.placement[edge.from], program.placement[edge.to]));
  costs.segments.resize(static_cast<std::size_t>(program.stages));
  costs.steps.assign(program.devices, 0);
  const std::vector<plan::StageCosts> of_segments = segment_costs(step.model);
  std::size_t first = 0;
  for (int s = 0; s < program.stages; ++s) {
    const double speed = speed_at(program.placement[s].front() % step.mesh.pipeline);
    const double parameters = static_cast<double>(trained_count(step.stages[s])) / layout_.tensor;
    const std::set<int> devices(program.placement[s].begin(), program.placement[s].end());
    const auto replicas = static_cast<int>(devices.size());
    const auto segments = std::span(of_segments).subspan(first, step.stages[s].size());
    first += segments.size();
    plan::StageCosts stage = stage_costs(segments, parameters, replicas);
    // What waits for all microbatches of a step is little of what its stage does.
    if (schedule::collects(program, s)) costs.segments[s].assign(segments.begin(), segments.end());
    // A segment takes an equal share of its stage, and only blocks run R.
    stage.recompute *= static_cast<double>(segments.size());
    for (double* pass : {&stage.forward, &stage.input, &stage.weight, &stage.recompute})
      *pass /= speed;
    for (plan::StageCosts& segment : costs.segments[s])
      for (double* pass : {&segment.forward, &segment.input, &segment.weight, &segment.recompute})
        *pass /= speed;
    costs.stages.push_back(stage);
    const double update = parameters * profile.step / (step.zero > 0 ? replicas : 1) / speed;
    for (const int device : devices) costs.steps[device] += update;
    costs.norm = std::max(costs.norm, parameters * profile.norm / speed);
  }
  for (const schedule::Tie& tie : program.ties) {
    const auto &first = program.placement[tie.first], &second = program.placement[tie.second];
    const bool elsewhere = devices_.facts().knows_links();
    const plan::LinkCosts sum = elsewhere ? link_between(first, second) : profile.sum;
    costs.ties.push_back(first == second ? 0 : 2 * sum.seconds(tie.bytes));
  }
  return costs;
}

}  // namespace cleave::train
