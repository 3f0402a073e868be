#include <string>

#include "cleave/schedule/generators/generator.h"
#include "cleave/schedule/graph.h"

namespace cleave::schedule {

Draft::Draft(std::string_view schedule, const PipelineShape& shape, Fold fold) : fold_(fold) {
  program_.schedule = std::string(schedule);
  program_.stages = shape.devices * shape.chunks;
  program_.devices = shape.devices;
  program_.microbatches = shape.microbatches;
  program_.segments.assign(program_.stages, 1);
  program_.lists.resize(shape.devices);
  program_.placement.resize(program_.stages);
  for (int device = 0; device < shape.devices; ++device)
    for (int chunk = 0; chunk < shape.chunks; ++chunk)
      program_.placement[stage_of(device, chunk)] = {device};
  program_.edges = shape.graph;
  for (int stage = 0; stage + 1 < program_.stages && shape.graph.empty(); ++stage)
    program_.edges.push_back({.from = stage, .to = stage + 1});
  after_ = longest_paths(program_.stages, program_.edges).value();
}

int Draft::stage_of(int device, int chunk) const {
  const int devices = program_.devices;
  const bool upward = fold_ == Fold::V && chunk % 2 == 1;
  return chunk * devices + (upward ? devices - 1 - device : device);
}

void Draft::emit(Op op, int device, int chunk, int microbatch) {
  if (microbatch >= program_.microbatches) return;
  program_.lists[device].push_back(
      {.op = op, .stage = stage_of(device, chunk), .microbatch = microbatch});
}

void Draft::forward(int device, int chunk, int microbatch) {
  emit(Op::Forward, device, chunk, microbatch);
}

void Draft::input(int device, int chunk, int microbatch) {
  emit(Op::BackwardInput, device, chunk, microbatch);
}

void Draft::weight(int device, int chunk, int microbatch) {
  emit(Op::BackwardWeight, device, chunk, microbatch);
}

void Draft::backward(int device, int chunk, int microbatch) {
  emit(Op::Backward, device, chunk, microbatch);
}

}  // namespace cleave::schedule
