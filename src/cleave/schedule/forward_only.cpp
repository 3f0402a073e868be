#include "cleave/schedule/forward_only.h"

#include "cleave/schedule/passes/pass.h"

namespace cleave::schedule {

Program forward_only(const Program& training, int microbatches, int replicas) {
  Program program = training;
  program.schedule = "forward";
  program.microbatches = microbatches;
  program.ties.clear();
  for (Edge& edge : program.edges) edge.backward = false;
  const Topology topology(program);
  for (int device = 0; device < program.devices; ++device) {
    auto& list = program.lists[device];
    list.clear();
    for (int microbatch = 0; microbatch < microbatches; ++microbatch) {
      for (int stage : topology.stages[device]) {
        list.push_back({.op = Op::Forward, .stage = stage, .microbatch = microbatch});
      }
    }
  }
  const LowerOptions options{.replicas = replicas, .grain = Grain::Segment};
  return split_segments(add_communication(replicate(std::move(program), options), options),
                        options);
}

}  // namespace cleave::schedule
