#include "cleave/engine/compile/step_stages.h"

#include <algorithm>
#include <iterator>

#include "cleave/engine/compile/traffic.h"
#include "cleave/parallel/sharded_layers.h"

namespace cleave::engine {

int devices_of(const CompiledStep& step, int stage) {
  return step.mesh.devices_at(step.program.placement[stage][0]);
}

namespace {

/// Those of a stage, of the segments of a whole share.
std::vector<SegmentSpec> part_of_stage(const CompiledStep& step, int stage,
                                       const std::vector<SegmentSpec>& all) {
  std::size_t first = 0;
  for (int s = 0; s < stage; ++s) first += step.stages[s].size();
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(first);
  return {begin, begin + std::ssize(step.stages[stage])};
}

std::vector<FewerSegments> fewer_of_stage(const CompiledStep& step, int stage, int number) {
  std::vector<FewerSegments> fewer;
  for (const FewerShares& shares : step.fewer) {
    fewer.push_back({shares.items, part_of_stage(step, stage, shares.segments[number])});
    const bool any = std::ranges::any_of(
        fewer.back().segments, [](const SegmentSpec& segment) { return !segment.layers.empty(); });
    if (!any) return {};  // it has no rows of items, however many there are
  }
  return fewer;
}

}  // namespace

std::vector<SegmentSpec> segments_of(const CompiledStep& step, int stage, int number) {
  return part_of_stage(step, stage, step.shares[number].segments);
}

Wiring wiring_of(const CompiledStep& step) {
  std::vector<std::int64_t> sizes;
  for (const auto& stage : step.stages) sizes.push_back(std::ssize(stage));
  return {step.model, sizes};
}

namespace {

/// Neither copies nor tied weights.
std::int64_t owned_elements(const SegmentSpec& segment) {
  std::int64_t count = 0;
  for (const LayerSpec& layer : segment.layers) {
    for (const ParameterSpec& parameter : layer.parameters) {
      if (!parameter.tied_to.empty()) continue;
      for (const Piece& piece : parameter.pieces)
        if (!piece.copy) count += piece.extent * parameter.elements() / parameter.shape[piece.dim];
    }
  }
  return count;
}

}  // namespace

std::vector<SegmentSpec> segments_on(const CompiledStep& step, int device) {
  std::vector<SegmentSpec> segments;
  for (int s = 0; s < step.program.stages; ++s) {
    if (!step.holds(device, s)) continue;
    std::ranges::move(segments_of(step, s, step.mesh.number_of(device)),
                      std::back_inserter(segments));
  }
  return segments;
}

std::int64_t parameters_of(const CompiledStep& step, int device) {
  std::int64_t count = 0;
  for (const SegmentSpec& segment : segments_on(step, device)) count += owned_elements(segment);
  return count;
}

namespace {

/// The ports of all segments of a stage.
std::vector<SegmentPorts> ports_of_stage(const CompiledStep& step, int stage, int number) {
  const Wiring wiring = wiring_of(step);
  std::vector<SegmentPorts> ports;
  for (int s = 0; s < std::ssize(step.model.segments); ++s)
    if (wiring.stage_of(s) == stage) ports.push_back(wiring.ports(step.shares[number], s));
  return ports;
}

/// The names of the parameters of all stages that share a device with `stage`.
std::vector<std::string> resident_names(const CompiledStep& step, int stage) {
  std::vector<std::string> names;
  for (int other = 0; other < step.program.stages; ++other) {
    if (step.program.placement[other][0] != step.program.placement[stage][0]) continue;
    for (const SegmentSpec& segment : segments_of(step, other, 0)) {
      for (const LayerSpec& layer : segment.layers) {
        for (const ParameterSpec& parameter : layer.parameters) names.push_back(parameter.name);
      }
    }
  }
  return names;
}

/// The names that some weight of the model is tied to.
std::vector<std::string> tied_names(std::span<const SegmentSpec> segments) {
  std::vector<std::string> names;
  for (const SegmentSpec& segment : segments) {
    for (const LayerSpec& layer : segment.layers) {
      for (const ParameterSpec& parameter : layer.parameters) {
        if (!parameter.tied_to.empty()) names.push_back(parameter.tied_to);
      }
    }
  }
  return names;
}

}  // namespace

std::unique_ptr<Stage> make_stage(const CompiledStep& step, int stage, int number,
                                  const LayerFactory& make) {
  const std::vector<std::string> resident = resident_names(step, stage);
  const std::vector<std::string> tied = tied_names(step.shares[0].segments);
  const int holders = static_cast<int>(holders_of(step.program, stage).size());
  const int sides = step.program.replicas / holders;
  return std::make_unique<Stage>(
      segments_of(step, stage, number),
      StageOptions{.ports = ports_of_stage(step, stage, number),
                   .state = {.dtype = step.model.dtype,
                             .resident = resident,
                             .tied = tied,
                             .sums = step.has_gradients ? DeviceSums::count(step.fold, sides) : 0,
                             .sides = sides,
                             .zero = holders > 1 ? step.zero : 0,
                             .replicas = holders,
                             .masters_with_slots = step.state_moves},
                   .keep = step.keep[stage],
                   .fewer = fewer_of_stage(step, stage, number)},
      make);
}

std::vector<std::unique_ptr<Stage>> stages_of_number(const CompiledStep& step, int number,
                                                     const LayerFactory& make) {
  std::vector<std::unique_ptr<Stage>> stages;
  for (int s = 0; s < step.program.stages; ++s) stages.push_back(make_stage(step, s, number, make));
  return stages;
}

std::vector<std::int64_t> collective_bytes(const CompiledStep& step, int device) {
  const LayerKinds kinds;
  const auto stages =
      stages_of_number(step, step.mesh.number_of(device), parallel::sharded_layers(kinds, nullptr));
  std::vector<const Stage*> all;
  for (const auto& stage : stages) all.push_back(stage.get());
  return planned_collectives(traffic_parts(step, step.program, all, device));
}

std::vector<std::unique_ptr<Stage>> make_stages(const CompiledStep& step, int device,
                                                const LayerFactory& make) {
  std::vector<std::unique_ptr<Stage>> stages(step.program.stages);
  for (int s = 0; s < step.program.stages; ++s)
    if (step.holds(device, s)) stages[s] = make_stage(step, s, step.mesh.number_of(device), make);
  return stages;
}

}  // namespace cleave::engine
