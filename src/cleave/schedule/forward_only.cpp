#include "cleave/schedule/forward_only.h"

#include "cleave/schedule/passes/pass.h"

namespace cleave::schedule {

Program forward_only(const Program& training, int microbatches, const LowerOptions& options) {
  Program program = training;
  program.schedule = "forward";
  program.microbatches = microbatches;
  program.ties.clear();
  program.gradients.clear();
  program.absent.clear();
  for (Edge& edge : program.edges) edge.backward = false;
  const Topology topology(program);
  for (int device = 0; device < program.devices; ++device) {
    auto& list = program.lists[device];
    list.clear();
    for (int microbatch = 0; microbatch < microbatches; ++microbatch) {
      for (int replica = 0; replica < topology.replicas[device]; ++replica) {
        for (int stage : topology.stages[device])
          list.push_back({.op = Op::Forward,
                          .stage = stage,
                          .microbatch = replica * microbatches + microbatch});
      }
    }
  }
  for (const auto pass : {replicate, add_communication, split_segments, collect_steps,
                          shard_parameters, pass_through_host})
    program = pass(std::move(program), options);
  return program;
}

}  // namespace cleave::schedule
