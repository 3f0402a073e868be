// What the stages of a step need of memory and scratch.
#include <algorithm>

#include "cleave/base/process_memory.h"
#include "cleave/engine/compile/stage_memory.h"
#include "cleave/engine/compile/step_stages.h"
#include "cleave/parallel/sharded_layers.h"
#include "cleave/parallel/tensor_group.h"
#include "cleave/parallel/traffic.h"

namespace cleave::engine {
namespace {

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

}  // namespace cleave::engine
