#include <algorithm>

#include "cleave/base/check.h"
#include "cleave/schedule/passes/pass.h"

namespace cleave::schedule {
namespace {

std::size_t slots(const Program& program) {
  return static_cast<std::size_t>(program.replicas) * program.stages * program.microbatches;
}

}  // namespace

ActionIndex::ActionIndex(const Program& program)
    : stages_(program.stages),
      microbatches_(program.microbatches),
      forward_(slots(program), -1),
      backward_(slots(program), -1) {
  const Topology topology(program);
  for (int device = 0; device < program.devices; ++device) {
    const auto& list = program.lists[device];
    for (int at = 0; at < static_cast<int>(list.size()); ++at) {
      const auto& [written, completes, direction, stage, segment, microbatch, edge] = list[at];
      if (!is_compute(written)) continue;
      require(stage >= 0 && stage < program.stages && microbatch >= 0 &&
                  microbatch < topology.microbatches(device),
              "device ", device, ": ", list[at], " is outside of ", program.stages, " stages and ",
              topology.microbatches(device), " microbatches");
      require(std::ranges::binary_search(topology.stages[device], stage), "device ", device, ": ",
              list[at], " belongs to another device; see the placement of stage ", stage);
      const Op op = topology.acts_as(list[at]);
      if (op == Op::BackwardWeight || op == Op::Recompute) continue;
      const OfReplica of = topology.of_replica(device, list[at]);
      int& position = (op == Op::Forward ? forward_ : backward_)[slot(stage, of)];
      require(position < 0, "device ", device, " runs ", list[at], " twice");
      position = at;
    }
  }
  check_complete(program, topology);
}

void ActionIndex::check_complete(const Program& program, const Topology& topology) const {
  // A program that only evaluates has no backward at all.
  const bool trains = std::ranges::any_of(backward_, [](int at) { return at >= 0; });
  for (std::size_t at = 0; at < forward_.size(); ++at) {
    const int stage = static_cast<int>(at / microbatches_ % stages_);
    const ReplicaId replica{static_cast<int>(at / (microbatches_ * stages_))};
    const MicrobatchId microbatch{static_cast<int>(at % microbatches_)};
    if (!topology.present(stage, {.replica = replica, .microbatch = microbatch})) continue;
    require(forward_[at] >= 0, "no device runs ", stage, 'F', microbatch);
    const GradientKind kind = gradients_of(program, stage);
    if (!trains || kind == GradientKind::None) continue;
    require(backward_[at] >= 0, "no device runs ", stage,
            kind == GradientKind::WeightOnly ? 'W' : 'I', microbatch,
            kind == GradientKind::Full ? " (or B)" : "");
  }
}

}  // namespace cleave::schedule
