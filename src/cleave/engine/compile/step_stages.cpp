#include "cleave/engine/compile/step_stages.h"

#include <algorithm>
#include <iterator>

#include "cleave/base/process_memory.h"
#include "cleave/engine/compile/stage_memory.h"
#include "cleave/engine/compile/traffic.h"
#include "cleave/parallel/sharded_layers.h"
#include "cleave/parallel/tensor_group.h"
#include "cleave/parallel/traffic.h"

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
    const auto& places = step.program.placement[s];
    if (std::ranges::find(places, step.place_of(device)) == places.end()) continue;
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

/// Room for the largest of the devices at a place: a vocabulary need not divide evenly.
void enlarge(plan::StageMemory& memory, const plan::StageMemory& other) {
  const auto largest = [](std::int64_t& bytes, std::int64_t others) {
    bytes = std::max(bytes, others);
  };
  largest(memory.weights, other.weights);
  largest(memory.gradients, other.gradients);
  largest(memory.optimizer, other.optimizer);
  largest(memory.saved, other.saved);
  for (std::size_t s = 0; s < memory.segments.size(); ++s) {
    plan::SegmentMemory& mine = memory.segments[s];
    largest(mine.kept_for_input, other.segments[s].kept_for_input);
    largest(mine.kept_for_weight, other.segments[s].kept_for_weight);
    largest(mine.input_kept, other.segments[s].input_kept);
    largest(mine.recomputed, other.segments[s].recomputed);
    largest(mine.gathered, other.segments[s].gathered);
    largest(mine.sums, other.segments[s].sums);
    largest(mine.share, other.segments[s].share);
    largest(mine.reducing, other.segments[s].reducing);
    largest(mine.collected, other.segments[s].collected);
    largest(mine.state, other.segments[s].state);
    largest(mine.reducing_on_host, other.segments[s].reducing_on_host);
    largest(mine.gathering_on_host, other.segments[s].gathering_on_host);
    largest(mine.refreshing_on_host, other.segments[s].refreshing_on_host);
    largest(mine.collecting_on_host, other.segments[s].collecting_on_host);
  }
}

/// What collectives inside the layers of a stage pass through on the host.
std::int64_t exchanged_inside(const Stage& stage) {
  std::int64_t bytes = 0;
  for (const SegmentSpec& segment : stage.segments())
    for (const LayerSpec& layer : segment.layers)
      bytes = std::max(bytes, parallel::TensorGroup::host_bytes(parallel::largest_exchange(layer)));
  return bytes;
}

/// TIE between two devices adds up in the kernel scratch of both.
void plan_ties(CompiledStep& step, const Stages& stages) {
  const auto& placement = step.program.placement;
  for (std::size_t t = 0; t < step.program.ties.size(); ++t) {
    const schedule::Tie& tie = step.program.ties[t];
    if (placement[tie.first] == placement[tie.second]) continue;
    std::int64_t bytes = 0;
    for (const auto& stage : stages[tie.second]) {
      for (int r = 0; r < std::ssize(holders_of(step.program, tie.second)); ++r)
        bytes = std::max(
            bytes, GradientSync::tied_bytes(stage->parameters().layout(), step.tie_names[t], r));
    }
    for (const int stage : {tie.first, tie.second}) {
      std::int64_t& on_host = step.memory[stage].scratch_on_host;
      on_host = std::max(on_host, GradientSync::tie_host_bytes(bytes));
      for (const int device : placement[stage])
        step.kernel_scratch[device] =
            std::max(step.kernel_scratch[device], GradientSync::tie_workspace(bytes));
    }
  }
}

/// What STEP needs for the largest parameter of a stage.
std::int64_t update_scratch(const Stage& stage, const OptimizerKind& optimizer,
                            ops::Compute& compute) {
  std::int64_t most = 0;
  if (!optimizer.scratch) return most;
  for (const SegmentSpec& segment : stage.segments()) {
    for (const LayerSpec& layer : segment.layers) {
      for (const ParameterSpec& parameter : layer.parameters) {
        if (parameter.trainable) most = std::max(most, optimizer.scratch(compute, parameter));
      }
    }
  }
  return aligned(most);
}

/// Scratch is a device's own: the largest kernel scratch of its stages, then the largest work.
void plan_scratch(CompiledStep& step, const Stages& stages, const CompileOptions& options) {
  ops::Compute compute(options.threads, options.arithmetic);
  step.kernel_scratch.assign(step.program.devices, 0);
  for (int s = 0; s < step.program.stages; ++s) {
    std::int64_t needed = 0;
    for (const auto& stage : stages[s])
      needed = std::max({needed, stage->kernel_scratch_bytes(compute),
                         update_scratch(*stage, *options.optimizer, compute)});
    for (int device : step.program.placement[s]) {
      step.kernel_scratch[device] = std::max(step.kernel_scratch[device], needed);
    }
  }
  for (int s = 0; s < step.program.stages; ++s)
    for (const auto& stage : stages[s])
      step.memory[s].scratch_on_host =
          std::max(step.memory[s].scratch_on_host, exchanged_inside(*stage));
  plan_ties(step, stages);
  for (int s = 0; s < step.program.stages; ++s) {
    std::int64_t work = 0;
    for (const auto& stage : stages[s]) work = std::max(work, stage->work_bytes());
    // Where replicas cut the model differently, the devices of a stage have different others.
    std::int64_t kernels = 0;
    for (const int device : step.program.placement[s])
      kernels = std::max(kernels, step.kernel_scratch[device]);
    step.memory[s].scratch = kernels + work;
  }
}

}  // namespace

Stages plan_stages(CompiledStep& step, const CompileOptions& options) {
  Stages stages(step.program.stages);
  const LayerFactory make = parallel::sharded_layers(options.kinds, nullptr);
  for (int s = 0; s < step.program.stages; ++s) {
    step.memory.emplace_back();
    for (int number = 0; number < devices_of(step, s); ++number) {
      stages[s].push_back(make_stage(step, s, number, make));
      const plan::StageMemory memory = memory_of(*stages[s].back());
      if (number == 0) step.memory.back() = memory;
      enlarge(step.memory.back(), memory);
    }
  }
  const std::int64_t heap = heap_bytes();
  plan_scratch(step, stages, options);
  step.library_bytes = heap_bytes() - heap;
  return stages;
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
  return planned_collectives({.program = step.program,
                              .mesh = step.mesh,
                              .stages = all,
                              .tie_names = step.tie_names,
                              .fold = step.fold,
                              .pieces = std::ssize(step.pieces),
                              .place = step.place_of(device),
                              .device = device,
                              .devices = step.devices()});
}

std::vector<std::unique_ptr<Stage>> make_stages(const CompiledStep& step, int device,
                                                const LayerFactory& make) {
  std::vector<std::unique_ptr<Stage>> stages(step.program.stages);
  for (int s = 0; s < step.program.stages; ++s) {
    const auto& places = step.program.placement[s];
    if (std::ranges::find(places, step.place_of(device)) != places.end()) {
      stages[s] = make_stage(step, s, step.mesh.number_of(device), make);
    }
  }
  return stages;
}

}  // namespace cleave::engine
