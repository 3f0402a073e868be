#include <algorithm>
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
  for (DeviceId device{0}; device < shape.devices; ++device)
    for (int chunk = 0; chunk < shape.chunks; ++chunk)
      program_.placement[stage_of(device, chunk)] = {device};
  program_.edges = shape.graph;
  for (int stage = 0; stage + 1 < program_.stages && shape.graph.empty(); ++stage)
    program_.edges.push_back({.from = stage, .to = stage + 1});
  replicas_ = shape.replicas.empty() ? std::vector<int>(shape.devices, 1) : shape.replicas;
  further_ = shape.further_ahead;
  program_.replicas = std::ranges::max(replicas_);
  for (const int count : replicas_) stands_for_.push_back(program_.replicas / count);
  std::vector<int> devices(program_.stages, 1);
  for (DeviceId device{0}; device < shape.devices && !shape.replicas.empty(); ++device)
    devices[stage_of(device, 0)] = replicas_[device];
  after_ = longest_paths(program_.stages, program_.edges, devices).value();
}

int Draft::stage_of(DeviceId device, int chunk) const {
  const int devices = program_.devices;
  return chunk * devices + folded(fold_, devices, chunk, device);
}

void Draft::emit(Op op, DeviceId device, int chunk, MicrobatchId microbatch) {
  if (microbatch >= microbatches(device)) return;
  // Replicas take turns, so that those that feed a device all have something to do.
  const int replica = microbatch % stands_for_[device];
  const int of_replica = microbatch / stands_for_[device];
  program_.lists[device].push_back({.op = op,
                                    .stage = stage_of(device, chunk),
                                    .microbatch = replica * program_.microbatches + of_replica});
}

Program Draft::finish() && {
  if (program_.replicas == 1) return std::move(program_);
  std::vector<int> first;  // of the devices that a list is copied for
  std::vector<std::vector<Instruction>> lists;
  for (int device = 0; device < program_.devices; ++device) {
    first.push_back(static_cast<int>(lists.size()));
    lists.insert(lists.end(), replicas_[device], program_.lists[device]);
  }
  for (auto& place : program_.placement) {
    const int device = place[0];
    place.clear();
    for (int replica = 0; replica < program_.replicas; ++replica)
      place.push_back(first[device] + replica / stands_for_[device]);
  }
  program_.devices = static_cast<int>(lists.size());
  program_.lists = std::move(lists);
  return std::move(program_);
}

void Draft::forward(DeviceId device, int chunk, MicrobatchId microbatch) {
  emit(Op::Forward, device, chunk, microbatch);
}

void Draft::input(DeviceId device, int chunk, MicrobatchId microbatch) {
  emit(Op::BackwardInput, device, chunk, microbatch);
}

void Draft::weight(DeviceId device, int chunk, MicrobatchId microbatch) {
  emit(Op::BackwardWeight, device, chunk, microbatch);
}

void Draft::backward(DeviceId device, int chunk, MicrobatchId microbatch) {
  emit(Op::Backward, device, chunk, microbatch);
}

}  // namespace cleave::schedule
